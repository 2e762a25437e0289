package io.budgetd;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Durations as the API writes them. */
final class Durations {
  private static final Pattern PART = Pattern.compile("([0-9.]+)([a-zµ]+)");
  private static final Map<String, Double> NANOS = Map.of("ns", 1.0, "us", 1e3, "µs", 1e3,
      "ms", 1e6, "s", 1e9, "m", 60e9, "h", 3600e9, "d", 86_400e9);

  private static final Duration MOST = Duration.ofDays(30 * 365);

  private Durations() {}

  /** Returns the nanoseconds of a duration such as "15m" or "1h30m". */
  static long parse(String text) {
    double total = 0;
    for (Matcher part = PART.matcher(text); part.find(); ) {
      total += Double.parseDouble(part.group(1)) * NANOS.getOrDefault(part.group(2), 0.0);
    }
    return (long) total;
  }

  /** Returns nanoseconds as seconds, such as "1.5s". */
  static String seconds(long nanos) {
    return BigDecimal.valueOf(nanos, 9).stripTrailingZeros().toPlainString() + "s";
  }

  /** Returns the nanoseconds of a duration, at most 30 years, so that sums do not overflow. */
  static long nanos(Duration time) {
    return time.compareTo(MOST) < 0 ? time.toNanos() : MOST.toNanos();
  }
}
