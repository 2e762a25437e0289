package io.budgetd;

import io.budgetd.Transport.Answer;
import io.budgetd.Transport.NoAnswer;
import io.budgetd.Transport.Send;
import io.budgetd.api.Api;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.stream.IntStream;

/** What a client does in a call: when it repeats, waits, cancels and gives up. */
final class Calls {
  /** The longest Retry-After that a call waits for. */
  static final long MAX_RETRY_AFTER = 30_000_000_000L;

  private static final Set<String> FAULTS =
      Set.of("malformed", "invalid", "too_large", "unsupported_media_type");

  /** Until when a call may go on, and whether it does not hear an interrupt of its thread. */
  record Until(long deadline, boolean deaf) {
    static final Until EVER = new Until(Long.MAX_VALUE, false);
  }

  final Clock clock;
  final Retry retry;
  private final List<String> addresses;
  private final String tenant;
  private final Supplier<String> key;
  private final long cancelWithin;
  private final Transport transport;
  // counts attempts without a usable answer, and selects the address
  private final AtomicInteger failed = new AtomicInteger();

  Calls(List<String> addresses, String tenant, Supplier<String> key, Retry retry,
      long cancelWithin, Transport transport, Clock clock) {
    this.addresses = addresses;
    this.tenant = tenant;
    this.key = key;
    this.retry = retry;
    this.cancelWithin = cancelWithin;
    this.transport = transport;
    this.clock = clock;
  }

  /** Returns the base URL of an address. */
  static String base(String address) {
    if (address.contains("@")) {
      throw new IllegalArgumentException(
          "server address: must not have a user or password; the key is a setting");
    }
    String whole = address.contains("://") ? address : "http://" + address;
    try {
      URI uri = URI.create(whole);
      boolean web = "http".equals(uri.getScheme()) || "https".equals(uri.getScheme());
      if (web && uri.getHost() != null && uri.getQuery() == null && uri.getFragment() == null) {
        return whole.replaceAll("/+$", "");
      }
    } catch (IllegalArgumentException e) {
      // said below
    }
    throw new IllegalArgumentException(
        "server address \"" + address + "\": must look like http://host:port");
  }

  /** Makes a call and returns its answer. */
  Object run(What what, Until until) {
    long began = clock.now();
    boolean unanswered = false;
    for (int n = 1; ; n++) {
      BudgetdException last;
      try {
        return attempt(what, until);
      } catch (BudgetdException e) {
        last = e;
      }
      if (!last.undecided()) {
        throw certain(what, settling(until), unanswered, last);
      }
      unanswered |= last instanceof Unknown;
      if (!waits(n, began, until, last)) {
        throw unanswered ? givenUp(what, settling(until), last) : last;
      }
    }
  }

  /** Makes a call and returns its answer as a record. */
  <T> T run(What what, Until until, Class<T> type) {
    return Records.of(type, run(what.with(type), until));
  }

  /** Makes deductions together and returns a result for each. */
  List<Result> batch(List<Api.BatchItem> items, Until until) {
    List<What> calls = items.stream().map(What::deduct).toList();
    List<Result> results = new ArrayList<>(Collections.nCopies(items.size(), null));
    boolean[] unanswered = new boolean[items.size()];
    List<Integer> open = IntStream.range(0, items.size()).boxed().toList();
    long began = clock.now();
    boolean answered = false;
    boolean doubtful = false;
    for (int n = 1; !open.isEmpty(); n++) {
      List<?> texts = List.of();
      BudgetdException whole = null;
      try {
        Object answer = attempt(What.batch(open.stream().map(items::get).toList()), until);
        texts = (List<?>) ((Map<?, ?>) answer).get("results");
        answered = true;
      } catch (BudgetdException e) {
        whole = e;
        if (!e.undecided() && !answered && !doubtful) {
          throw e;
        }
      }
      List<Integer> still = new ArrayList<>();
      Until settling = settling(until);
      for (int at = 0; at < open.size(); at++) {
        int i = open.get(at);
        Result result = whole == null ? item(calls.get(i), texts.get(at)) : new Result(null, whole);
        BudgetdException error = result.error();
        if (error != null && error.undecided()) {
          unanswered[i] |= error instanceof Unknown;
          doubtful |= unanswered[i];
          still.add(i);
        } else if (error != null) {
          result = new Result(null, certain(calls.get(i), settling, unanswered[i], error));
        }
        results.set(i, result);
      }
      open = still;
      if (open.isEmpty()) {
        break;
      }
      BudgetdException first = results.get(open.get(0)).error();
      if (waits(n, began, until, first)) {
        continue;
      }
      if (!answered && !doubtful) {
        throw first;
      }
      Until last = settling(until);
      for (int i : open) {
        if (unanswered[i]) {
          results.set(i, new Result(null, givenUp(calls.get(i), last, results.get(i).error())));
        }
      }
      break;
    }
    return results;
  }

  /** Asks which deductions would be accepted and returns a result for each. */
  List<Result> check(List<Api.CheckItem> items, Until until) {
    if (items.isEmpty()) {
      return List.of();
    }
    What what = What.check(items);
    Object answer = run(what, until);
    if (!What.complete(items.size()).test(answer)) {
      throw new NotNow("check", "check: the answer has another number of results");
    }
    List<Result> results = new ArrayList<>();
    for (Object one : (List<?>) ((Map<?, ?>) answer).get("results")) {
      results.add(item(what, one));
    }
    return results;
  }

  /** Reads the result of one item: an answer, which has an outcome, or a problem. */
  private static Result item(What what, Object one) {
    if (one instanceof Map<?, ?> m && m.get("outcome") instanceof String outcome
        && !outcome.isEmpty()) {
      if (what.op().equals("check") || what.good().test(one)) {
        try {
          return new Result(Records.of(Api.DeductAnswer.class, one), null);
        } catch (IllegalArgumentException e) {
          // said below
        }
      }
    } else if (one instanceof Map<?, ?> m && m.get("code") instanceof String code
        && !code.isEmpty()) {
      int status = m.get("status") instanceof Long n ? n.intValue() : 0;
      Map<?, ?> problem = what.op().equals("check") ? m : inWholeSeconds(m);
      return new Result(null, Problem.error(what.op(), problem, status, what.read(), Map.of()));
    }
    return new Result(null, lost(what, what.op() + ": a result cannot be read"));
  }

  /** Rounds Retry-After up, as its header does in the answer to a single call. */
  private static Map<?, ?> inWholeSeconds(Map<?, ?> problem) {
    Map<Object, Object> all = new LinkedHashMap<>(problem);
    if (all.get("retry_after") instanceof Double seconds) {
      all.put("retry_after", Math.ceil(seconds));
    }
    return all;
  }

  /** Sends a call once and returns its answer. */
  private Object attempt(What what, Until until) {
    int at = failed.get();
    String address = addresses.get(Math.floorMod(at, addresses.size()));
    long timeout = Math.min(Durations.nanos(retry.attemptTimeout()) + what.longer(),
        until.deadline() - clock.now());
    Send send = request(what, address, timeout, until.deaf());
    try {
      if (timeout <= 0) {
        throw new NoAnswer("the deadline has passed", false);
      }
      Answer answer = transport.send(send);
      if (answer.status() < 200) {
        throw new NoAnswer("the answer is not the last one", true);
      }
      if (answer.status() > 299) {
        throw Problem.error(what.op(), json(answer), answer.status(), what.read(),
            answer.headers());
      }
      Object value = json(answer);
      if (!what.good().test(value)) {
        throw new NoAnswer("the answer is not about this request", true);
      }
      return value;
    } catch (NoAnswer e) {
      failed.compareAndSet(at, at + 1); // another attempt goes to the next address
      if (!e.sent) {
        throw new NotNow(what.op(),
            what.op() + ": nothing was sent to " + address + ": " + e.getMessage());
      }
      throw lost(what, what.op() + ": no usable answer from " + address + ": " + e.getMessage());
    }
  }

  private static Object json(Answer answer) {
    try {
      return Json.read(answer.body());
    } catch (IllegalArgumentException e) {
      return null;
    }
  }

  private Send request(What what, String address, long timeout, boolean deaf) {
    StringBuilder target = new StringBuilder();
    for (String part : what.path()) {
      if (part.isEmpty() || part.equals(".") || part.equals("..")) {
        throw new Faulty(what.op(), what.op() + ": " + what.path() + " names no budget");
      }
      target.append('/').append(escape(part).replace("%3A", ":"));
    }
    Map<String, String> query = new LinkedHashMap<>(what.query());
    if (!tenant.isEmpty()) {
      query.put("tenant", tenant);
    }
    char before = '?';
    for (Map.Entry<String, String> member : query.entrySet()) {
      target.append(before).append(member.getKey()).append('=').append(escape(member.getValue()));
      before = '&';
    }
    Map<String, String> headers = new LinkedHashMap<>();
    headers.put("Accept", "application/json, application/problem+json");
    headers.put("User-Agent", "budgetd-java");
    String token = key.get();
    if (token != null && !token.isEmpty()) {
      if (!token.chars().allMatch(letter -> letter > ' ' && letter <= '~')) {
        throw new Faulty(what.op(), what.op() + ": the key has a character that no key has");
      }
      headers.put("Authorization", "Bearer " + token);
    }
    byte[] body = null;
    if (what.body() != null) {
      headers.put("Content-Type", "application/json");
      try {
        body = Json.write(Records.tree(what.body())).getBytes(StandardCharsets.UTF_8);
      } catch (IllegalArgumentException e) {
        throw new Faulty(what.op(), what.op() + ": the request cannot be written: "
            + e.getMessage());
      }
    }
    String method = body == null ? "GET" : "POST";
    return new Send(address, method, target.toString(), headers, body, timeout, deaf);
  }

  private static String escape(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }

  /** Waits before attempt n+1, and returns whether to make it. */
  private boolean waits(int n, long began, Until until, BudgetdException cause) {
    long after = cause.retryAfter().toNanos();
    if (n >= retry.attempts() || after > MAX_RETRY_AFTER) {
      return false;
    }
    long pause = after + jitter(n);
    long now = clock.now();
    if (until.deadline() - now <= pause) {
      return false;
    }
    if (retry.within() != null && now - began + pause >= Durations.nanos(retry.within())) {
      return false;
    }
    return slept(pause, until.deaf());
  }

  /** Returns a random time up to the ceiling of attempt n. */
  long jitter(int n) {
    return (long) (ThreadLocalRandom.current().nextDouble() * retry.ceiling(n));
  }

  /** Sleeps, and returns false if an interrupt ended it, which stays noted in the thread. */
  boolean slept(long nanos, boolean deaf) {
    boolean interrupted = false;
    long end = clock.now() + nanos;
    try {
      while (true) {
        try {
          clock.sleep(Math.max(0, end - clock.now()));
          return true;
        } catch (InterruptedException e) {
          interrupted = true;
          if (!deaf) {
            return false;
          }
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Returns until when a call is settled: in its own time, if cancelWithin grants some. */
  private Until settling(Until until) {
    return cancelWithin > 0 ? new Until(clock.now() + cancelWithin, true) : until;
  }

  /**
   * Returns what a final answer means for the call as a whole. A refusal says only that its own
   * attempt did nothing. After one without an answer the id is cancelled. If a cancel finds the
   * same fault in the request, no server accepts the id.
   */
  private BudgetdException certain(
      What what, Until until, boolean unanswered, BudgetdException last) {
    if (!unanswered || last instanceof Conflict) {
      return last;
    }
    if (what.cancel() == null) {
      return unknown(what, last);
    }
    try {
      run(what.cancel(), until);
    } catch (BudgetdException e) {
      boolean same = FAULTS.contains(last.code()) && FAULTS.contains(e.code());
      return same ? last : unknown(what, last);
    }
    return last.asCancelled();
  }

  /** Returns the error of a call whose attempts ended with one unanswered. */
  private BudgetdException givenUp(What what, Until until, BudgetdException last) {
    if (what.cancel() == null || cancelWithin <= 0) {
      return unknown(what, last);
    }
    try {
      run(what.cancel(), until);
    } catch (BudgetdException e) {
      return unknown(what, last);
    }
    return new Conflict(what.op(), what.op() + ": request_void: no attempt was answered in time",
        Problem.of("request_void", 409, what.requestId())).asCancelled();
  }

  private static BudgetdException unknown(What what, BudgetdException last) {
    return new Unknown(what.op(), what.op() + ": the outcome of \"" + what.requestId()
        + "\" is unknown: " + last.getMessage(),
        Problem.of("outcome_unknown", 0, what.requestId()));
  }

  /** Returns the error of an answer that is lost: a read was not done, the rest may have been. */
  private static BudgetdException lost(What what, String message) {
    Problem problem = new Problem(Map.of("request_id", what.requestId()), 0, 0);
    return what.read() ? new NotNow(what.op(), message, problem)
        : new Unknown(what.op(), message, problem);
  }
}
