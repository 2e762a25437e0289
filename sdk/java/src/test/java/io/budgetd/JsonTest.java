package io.budgetd;

import io.budgetd.api.Api;
import java.lang.reflect.RecordComponent;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** What is read and written as JSON. */
final class JsonTest {
  private JsonTest() {}

  static void all() {
    Check.test("JSON that is read and written", JsonTest::same);
    Check.test("JSON that is refused", JsonTest::refused);
    Check.test("records", JsonTest::records);
    Check.test("durations", JsonTest::durations);
  }

  private static void same() {
    for (String text : List.of("{}", "[]", "null", "true", "\"a\\\"\\\\\\u0001\"", "\"é😀\"",
        "9223372036854775807", "-9223372036854775808", "9007199254740993", "0", "0.5",
        "{\"b\":[1,{\"a\":null}],\"a\":false}")) {
      Check.equal(Json.write(Json.read(text)), text, text);
    }
    Check.equal(Json.read(" [ 1e3 , -0.5E-1, \"\\u00e9\\ud83d\\ude00\\/\\b\" ]\n"),
        List.of(1000.0, -0.05, "é😀/\b"), "spaces and escapes");
  }

  private static void refused() {
    for (String text : List.of("", " ", "{", "[1", "[1,]", "{\"a\":1,}", "{a:1}", "{\"a\"}", "01",
        "-", "+1", "1.", ".5", "1e", "0x1", "NaN", "tru", "nul", "1 2", "{} x", "\"a", "\"\n\"",
        "\"\\x\"", "\"\\u12\"", "\"\\ud83d\"", "9223372036854775808", "{\"a\":1,\"a\":2}",
        "\u0000", "1\u0000", "[".repeat(101) + "]".repeat(101))) {
      Check.fails(IllegalArgumentException.class, () -> {
        Object value = Json.read(text);
        throw new AssertionError(text + " was read as " + value);
      });
    }
    Check.fails(IllegalArgumentException.class, () -> Json.read(new byte[] {'"', -1, '"'}));
    Check.fails(IllegalArgumentException.class, () -> Json.write(Double.NaN));
    Check.fails(IllegalArgumentException.class, () -> Json.write("\ud83d"));
  }

  private static void records() {
    Api.DeductRequest request = Api.DeductRequest.of("o1", Long.MAX_VALUE).withKey("k")
        .withDimensions(Map.of("user", "u1")).withCounts(Map.of("x", 3L)).withDryRun(true);
    Object tree = Json.read(Json.write(Records.tree(request)));
    Check.equal(tree, Map.of("request_id", "o1", "amount", Long.MAX_VALUE, "key", "k",
        "dimensions", Map.of("user", "u1"), "counts", Map.of("x", 3L), "dry_run", true), "tree");
    Check.equal(Records.of(Api.DeductRequest.class, tree), request, "record");
    Check.fails(IllegalArgumentException.class,
        () -> Records.of(Api.DeductRequest.class, Map.of("amount", 0.5)));
    Check.fails(IllegalArgumentException.class,
        () -> Records.of(Api.DeductRequest.class, Map.of("counts", List.of())));
    Check.equal(Records.of(Api.Series.class, Map.of("rate_per_s", 3L)).ratePerS(), 3.0, "a number");
    for (Class<?> type : Api.class.getDeclaredClasses()) {
      Records.of(type, Map.of("of_a_later_version", 1L));
      for (RecordComponent one : type.getRecordComponents()) {
        Check.that(Arrays.stream(one.getName().split("_", 2)).count() == 1
            || one.getName().endsWith("_"), type + " has " + one.getName());
      }
    }
  }

  private static void durations() {
    Check.equal(Durations.parse("1h30m"), 5400_000_000_000L, "hours and minutes");
    Check.equal(Durations.parse("1.5s"), 1_500_000_000L, "seconds");
    Check.equal(Durations.seconds(30_000_000_000L), "30s", "written");
    Check.equal(Durations.seconds(1_500_000_000L), "1.5s", "written");
  }
}
