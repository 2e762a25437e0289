package io.budgetd;

import io.budgetd.Transport.Answer;
import io.budgetd.Transport.NoAnswer;
import io.budgetd.Transport.Send;
import io.budgetd.api.Api;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Plays the conversations of sdk/vectors.json on a clock of its own. */
final class VectorsTest {
  private final Map<String, Object> file;
  private final Map<String, Object> vector;
  private final FakeClock clock = new FakeClock();
  private List<Object> pages;

  private VectorsTest(Map<String, Object> file, Map<String, Object> vector) {
    this.file = file;
    this.vector = vector;
  }

  static void all(Path path) throws IOException {
    Map<String, Object> file = map(Json.read(Files.readAllBytes(path)));
    List<Object> vectors = list(file.get("vectors"));
    Check.test("the file has vectors", () -> Check.that(vectors.size() > 100, "too few"));
    for (Object one : vectors) {
      Map<String, Object> vector = map(one);
      Check.test((String) vector.get("name"), () -> new VectorsTest(file, vector).play());
    }
  }

  private void play() {
    Script script = new Script(file, list(vector.get("exchanges")), clock);
    Map<String, Object> got;
    try {
      got = ask(client(script));
    } catch (BudgetdException e) {
      got = new HashMap<>(Map.of("error", failure(e)));
    }
    if (script.wrong != null) {
      throw script.wrong;
    }
    if (pages != null) {
      got.put("pages", pages);
    }
    if (vector.containsKey("took_ms")) {
      Script.within(vector.get("took_ms"), clock.time, "the call");
    }
    Check.equal((long) script.n, (long) list(vector.get("exchanges")).size(),
        "the requests, with the result " + got);
    Check.equal(got.keySet(), map(vector.get("result")).keySet(), "the members of the result");
    has(got, vector.get("result"), "result");
  }

  private Client client(Script script) {
    Map<String, Object> s = new HashMap<>(map(file.get("settings")));
    s.putAll(map(vector.getOrDefault("client", Map.of())));
    Long attempts = (Long) s.get("attempts");
    String servers = IntStream.range(0, ((Long) s.getOrDefault("nodes", 1L)).intValue())
        .mapToObj(n -> "node-" + n).collect(Collectors.joining(","));
    Retry retry = new Retry(attempts == null ? 0 : attempts.intValue(), null,
        millis(s.get("base_ms")), millis(s.get("max_ms")), millis(s.get("attempt_timeout_ms")));
    Client client = Client.servers(servers).tenant((String) s.getOrDefault("tenant", ""))
        .key((String) s.getOrDefault("key", "")).retry(retry)
        .cancelWithin(millis(s.getOrDefault("cancel_within_ms", 0L)))
        .simulated(script, clock).build();
    Object deadline = vector.get("deadline_ms");
    return deadline == null ? client : client.within(millis(deadline));
  }

  private Map<String, Object> ask(Client client) {
    Map<String, Object> call = map(vector.get("call"));
    String op = (String) call.get("op");
    String budget = (String) call.get("budget");
    Object request = call.get("request");
    if (op.equals("batch") || op.equals("check")) {
      List<Result> results = op.equals("batch")
          ? client.batch(records(Api.BatchItem.class, request))
          : client.check(records(Api.CheckItem.class, request));
      return new HashMap<>(Map.of("results", results.stream().map(VectorsTest::outcome).toList()));
    }
    Map<String, Object> r = map(request);
    String after = (String) r.getOrDefault("after", "");
    int limit = ((Long) r.getOrDefault("limit", 0L)).intValue();
    Duration wait = millis(r.getOrDefault("wait_ms", 0L));
    Object answer = switch (op) {
      case "deduct" -> client.deduct(budget, Records.of(Api.DeductRequest.class, r));
      case "confirm" -> client.confirm(budget, Records.of(Api.ConfirmRequest.class, r));
      case "extend" -> client.extend(budget, Records.of(Api.ExtendRequest.class, r));
      case "renew" -> client.renew(budget, Records.of(Api.RenewRequest.class, r));
      case "deduct_set" -> client.deductSet(Records.of(Api.SetRequest.class, r));
      case "confirm_set" -> client.confirmSet(Records.of(Api.SetConfirm.class, r));
      case "extend_set" -> client.extendSet(Records.of(Api.SetExtend.class, r));
      case "rollback_set" -> client.rollbackSet(Records.of(Api.SetRollback.class, r));
      case "cancel_set" -> client.cancelSet(Records.of(Api.SetCancel.class, r));
      case "rollback" -> client.rollback(budget, Records.of(Api.RollbackRequest.class, r));
      case "cancel" -> client.cancel(budget, Records.of(Api.CancelRequest.class, r));
      case "find" -> client.find(budget, (String) r.get("request_id"),
          (String) r.getOrDefault("key", ""));
      case "feed" -> client.feed(budget, after, limit, wait);
      case "follow" -> follow(client.follow(budget, after, limit, wait));
      case "scope" -> null;
      default -> throw new AssertionError("unknown call " + op);
    };
    return answer != null ? new HashMap<>(Map.of("answer", Records.tree(answer)))
        : scope(client, budget, Records.of(Api.DeductRequest.class, r), list(call.get("steps")));
  }

  private Object follow(Iterator<Api.FeedPage> feed) {
    for (pages = new ArrayList<>(); ; ) {
      pages.add(feed.next().next());
    }
  }

  private Map<String, Object> scope(
      Client client, String budget, Api.DeductRequest request, List<Object> steps) {
    Hold kept = null;
    Map<String, Object> got = new HashMap<>();
    try (Hold hold = client.hold(budget, request)) {
      kept = hold;
      for (Object step : steps) {
        String[] words = ((String) step).split(" ");
        switch (words[0]) {
          case "work" -> clock.sleep(Long.parseLong(words[1]) * 1_000_000);
          case "dispatched" -> hold.dispatched();
          case "rollback" -> hold.rollback();
          case "renew" -> hold.renew(Long.parseLong(words[1]), Long.parseLong(words[2]));
          case "confirm" -> {
            if (words.length == 1) {
              hold.confirm();
            } else {
              hold.confirm(Long.parseLong(words[1]));
            }
          }
          case "fail" -> throw new BodyFailed();
          default -> throw new AssertionError("unknown step " + step);
        }
      }
    } catch (BodyFailed e) {
      got.put("raised", true);
    }
    got.put("done", kept.done());
    if (kept.lost() != null) {
      got.put("lost", kept.lost().code());
    }
    return got;
  }

  private static Map<String, Object> outcome(Result result) {
    Check.that(result.answer() == null != (result.error() == null), "both or nothing");
    return result.error() == null ? Map.of("answer", Records.tree(result.answer()))
        : Map.of("error", failure(result.error()));
  }

  private static Map<String, Object> failure(BudgetdException e) {
    Map<String, Object> all = new HashMap<>();
    all.put("kind", e.kind());
    all.put("code", e.code());
    all.put("status", (long) e.status());
    all.put("cancelled", e.cancelled());
    all.put("never", e.never());
    all.put("available", e.available());
    all.put("limit", e.limit());
    all.put("request_id", e.requestId());
    all.put("retry_after_ms", e.retryAfter().toMillis());
    all.put("says", e.getMessage());
    String type = e.getClass().getSimpleName().replaceAll("([a-z])([A-Z])", "$1_$2");
    Check.equal(type.toLowerCase(Locale.ROOT), e.kind(), "the type of the error");
    return all;
  }

  private static void has(Object got, Object want, String at) {
    if (want instanceof Map<?, ?> members) {
      for (Map.Entry<?, ?> member : members.entrySet()) {
        Object value = map(got).get(member.getKey());
        if (member.getKey().equals("says")) {
          list(member.getValue()).forEach(text ->
              Check.that(((String) value).contains((String) text), value + " lacks " + text));
        } else {
          has(value, member.getValue(), at + "." + member.getKey());
        }
      }
    } else if (want instanceof List<?> all) {
      Check.equal(list(got).size(), all.size(), at);
      for (int i = 0; i < all.size(); i++) {
        has(list(got).get(i), all.get(i), at + "[" + i + "]");
      }
    } else {
      Check.equal(got, want, at);
    }
  }

  private static Duration millis(Object n) {
    return n == null ? null : Duration.ofMillis((Long) n);
  }

  private static <T> List<T> records(Class<T> type, Object trees) {
    return list(trees).stream().map(tree -> Records.of(type, tree)).toList();
  }

  static Map<String, Object> map(Object value) {
    Map<String, Object> all = new LinkedHashMap<>();
    ((Map<?, ?>) value).forEach((name, member) -> all.put((String) name, member));
    return all;
  }

  static List<Object> list(Object value) {
    return new ArrayList<>((List<?>) value);
  }

  private static final class BodyFailed extends RuntimeException {
    private static final long serialVersionUID = 1;
  }

  /** A clock that only moves when somebody sleeps. */
  private static final class FakeClock implements Clock {
    private record Timer(long at, Runnable what) {}

    private long time;
    private final List<Timer> timers = new ArrayList<>();

    @Override
    public long now() {
      return time;
    }

    @Override
    public void sleep(long nanos) {
      long end = time + nanos;
      while (true) {
        Timer due = timers.stream().filter(t -> t.at <= end)
            .min((a, b) -> Long.compare(a.at, b.at)).orElse(null);
        if (due == null) {
          break;
        }
        timers.remove(due);
        time = Math.max(time, due.at);
        due.what.run();
      }
      time = Math.max(time, end);
    }

    @Override
    public Runnable later(long nanos, Runnable what) {
      Timer timer = new Timer(time + nanos, what);
      timers.add(timer);
      return () -> timers.remove(timer);
    }
  }

  /** A server that plays the exchanges of a vector. */
  private static final class Script implements Transport {
    private final Map<String, Object> file;
    private final List<Object> exchanges;
    private final FakeClock clock;
    private final Map<Object, byte[]> sent = new HashMap<>();
    private int n;
    private long ended;
    private AssertionError wrong;

    Script(Map<String, Object> file, List<Object> exchanges, FakeClock clock) {
      this.file = file;
      this.exchanges = exchanges;
      this.clock = clock;
    }

    @Override
    public Answer send(Send send) throws NoAnswer {
      try {
        return play(send);
      } catch (AssertionError e) {
        wrong = wrong == null ? e : wrong; // the end of a scope may suppress it
        throw e;
      }
    }

    private Answer play(Send send) throws NoAnswer {
      Check.that(n < exchanges.size(), "a request too many: " + send);
      Map<String, Object> exchange = map(exchanges.get(n++));
      Check.equal(send.address(), "http://node-" + exchange.getOrDefault("node", 0L), "address");
      if (exchange.containsKey("wait_ms")) {
        within(exchange.get("wait_ms"), clock.time - ended, "the wait before request " + n);
      }
      compare(send, exchange.get("request"));
      Object reply = exchange.get("reply");
      if (reply.equals("time_out") && exchange.containsKey("ends_ms")) {
        within(exchange.get("ends_ms"), send.timeout(), "the time of the attempt");
      }
      if (reply instanceof String name && map(file.get("replies")).containsKey(name)) {
        reply = map(file.get("replies")).get(name);
      }
      long took = reply instanceof String word ? word.equals("time_out") ? send.timeout() : 0
          : (Long) map(reply).getOrDefault("after_ms", 0L) * 1_000_000;
      boolean late = took >= send.timeout();
      clock.sleep(Math.min(took, send.timeout()));
      ended = clock.time;
      if (late || reply instanceof String) {
        throw new NoAnswer(String.valueOf(reply), !reply.equals("no_server"));
      }
      Map<String, Object> answer = map(reply);
      Map<String, String> headers = new HashMap<>();
      map(answer.getOrDefault("headers", Map.of())).forEach(
          (name, value) -> headers.put(name.toLowerCase(Locale.ROOT), (String) value));
      String text = answer.containsKey("body") ? Json.write(answer.get("body"))
          : (String) answer.get("text");
      return new Answer(((Long) answer.get("status")).intValue(), headers,
          text.getBytes(StandardCharsets.UTF_8));
    }

    private void compare(Send send, Object request) {
      Map<String, Object> want = map(
          request instanceof String name ? map(file.get("requests")).get(name) : request);
      String[] target = send.target().split("\\?", 2);
      Check.equal(send.method(), want.get("method"), "method");
      Check.equal(target[0], want.get("path"), "path");
      Map<String, Object> query = new HashMap<>();
      if (target.length > 1) {
        for (String part : target[1].split("&")) {
          String[] member = part.split("=", 2);
          query.put(member[0], URLDecoder.decode(member[1], StandardCharsets.UTF_8));
        }
      }
      Check.equal(query, want.getOrDefault("query", Map.of()), "query");
      map(want.getOrDefault("headers", Map.of())).forEach(
          (name, value) -> Check.equal(send.headers().get(name), value, name));
      Check.equal(send.body() == null ? null : Json.read(send.body()), want.get("body"), "body");
      byte[] before = sent.putIfAbsent(request, send.body());
      Check.that(before == null || Arrays.equals(before, send.body()), "other bytes than before");
    }

    static void within(Object bounds, long nanos, String what) {
      List<Object> range = list(bounds);
      Check.that(nanos >= (Long) range.get(0) * 1_000_000
          && nanos <= (Long) range.get(1) * 1_000_000, what + " is " + nanos + " ns: " + range);
    }
  }
}
