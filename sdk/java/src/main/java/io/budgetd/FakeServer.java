package io.budgetd;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A server for the tests of one's own code: budgets in memory, over HTTP on a port of its own. It
 * knows deduct, batch, check, confirm, extend, rollback, cancel, find and feed of promo budgets in
 * ledger mode, without limits; holds do not expire.
 */
public final class FakeServer implements AutoCloseable {
  private final Map<String, Long> budgets;
  private final Map<List<String>, Map<String, Object>> deductions = new HashMap<>();
  private final List<Map<String, Object>> entries = new ArrayList<>();
  private final Deque<Map<String, Object>> fails = new ArrayDeque<>();
  private final ExecutorService threads = Executors.newCachedThreadPool(work -> {
    Thread thread = new Thread(work, "budgetd-fake");
    thread.setDaemon(true);
    return thread;
  });
  private final HttpServer server;

  /** Starts a server with budgets and their units. */
  public FakeServer(Map<String, Long> budgets) {
    this.budgets = new HashMap<>(budgets);
    try {
      server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    server.createContext("/", this::serve);
    server.setExecutor(threads);
    server.start();
  }

  /** Returns the address for a client. */
  public String url() {
    return "http://" + server.getAddress().getAddress().getHostAddress() + ":"
        + server.getAddress().getPort();
  }

  /** Returns the units that a budget has left. */
  public synchronized long left(String budget) {
    return budgets.get(budget);
  }

  /** Lets the next call that is not yet spoken for fail, before it happens. */
  public synchronized void fail(int status, String code) {
    fails.add(problem(status, code));
  }

  /** Stops the server. */
  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
  }

  private void serve(HttpExchange exchange) throws IOException {
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      Map<String, Object> request = body.length > 0 ? map(Json.read(body))
          : query(exchange.getRequestURI().getRawQuery());
      String path = exchange.getRequestURI().getPath();
      Map<String, Object> answer = answer(path.substring(1).split("/"), request);
      byte[] text = Json.write(answer).getBytes(StandardCharsets.UTF_8);
      int status = answer.get("status") instanceof Number code ? code.intValue() : 200;
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.sendResponseHeaders(status, text.length);
      exchange.getResponseBody().write(text);
    }
  }

  private static Map<String, Object> query(String text) {
    Map<String, Object> all = new HashMap<>();
    for (String part : text == null ? new String[0] : text.split("&")) {
      String[] member = part.split("=", 2);
      all.put(member[0], URLDecoder.decode(member[1], StandardCharsets.UTF_8));
    }
    return all;
  }

  private synchronized Map<String, Object> answer(String[] path, Map<String, Object> request) {
    if (!fails.isEmpty()) {
      return fails.remove();
    }
    if (path.length == 2 && path[1].equals("deductions:batch")) {
      return Map.of("results", each(request.get("deductions"), false));
    }
    if (path.length == 2 && path[1].equals("checks")) {
      return Map.of("results", each(request.get("checks"), true));
    }
    if (path.length != 4 || !path[1].equals("budgets") || !budgets.containsKey(path[2])) {
      return problem(404, "budget_not_found");
    }
    String budget = path[2];
    if (path[3].equals("deduct")) {
      return deduct(budget, request, Boolean.TRUE.equals(request.get("dry_run")));
    }
    if (path[3].equals("ledger")) {
      int after = Integer.parseInt((String) request.getOrDefault("after", "0"));
      return Map.of("next", String.valueOf(entries.size()), "entries",
          entries.stream().skip(after).filter(e -> e.get("budget").equals(budget)).toList());
    }
    List<String> id = List.of(budget, text(request, "request_id"));
    if (!deductions.containsKey(id)) {
      if (!path[3].equals("cancel")) {
        return problem(404, "deduction_not_found");
      }
      deductions.put(id, deduction(id.get(1), "void", 0));
    }
    Map<String, Object> d = deductions.get(id);
    return path[3].equals("deductions") ? d : settle(budget, path[3], d, request);
  }

  private List<Object> each(Object items, boolean dry) {
    List<Object> results = new ArrayList<>();
    for (Object item : (List<?>) items) {
      Map<String, Object> request = map(item);
      results.add(deduct(text(request, "budget"), request,
          dry || Boolean.TRUE.equals(request.get("dry_run"))));
    }
    return results;
  }

  private Map<String, Object> deduct(String budget, Map<String, Object> request, boolean dry) {
    if (!budgets.containsKey(budget)) {
      return problem(404, "budget_not_found");
    }
    long amount = (Long) request.get("amount");
    List<String> id = List.of(budget, text(request, "request_id"));
    Map<String, Object> known = deductions.get(id);
    if (known != null && known.get("state").equals("void")) {
      return problem(409, "request_void");
    }
    if (known != null && known.get("state").equals("rolled_back")) {
      return problem(409, "already_rolled_back");
    }
    if (known != null && !known.get("amount").equals(amount)) {
      return problem(409, "request_conflict");
    }
    if (known == null && amount > left(budget)) {
      Map<String, Object> refusal = problem(409, "budget_exhausted");
      refusal.put("available", left(budget));
      return refusal;
    }
    if (dry) {
      return Map.of("outcome", "would_be_accepted", "amount", amount, "budget_remaining",
          left(budget), "limits", List.of());
    }
    if (known == null) {
      budgets.merge(budget, -amount, Long::sum);
      String state = request.containsKey("hold_ttl") ? "held" : "used";
      deductions.put(id, deduction(id.get(1), state, amount));
      note("deduct", budget, deductions.get(id), amount);
    }
    Map<String, Object> answer = new LinkedHashMap<>(deductions.get(id));
    answer.putAll(Map.of("outcome", "accepted", "bucket_remaining", left(budget),
        "budget_remaining", left(budget), "limits", List.of(), "receipt", id.get(1),
        "replayed", known != null));
    return answer;
  }

  private Map<String, Object> settle(
      String budget, String verb, Map<String, Object> d, Map<String, Object> request) {
    Long amount = (Long) request.get("amount");
    long all = (Long) d.get("amount");
    String state = text(d, "state");
    boolean replayed = false;
    if (verb.equals("extend")) {
      return state.equals("held") ? d : problem(409, "not_held");
    }
    if (verb.equals("confirm")) {
      long used = amount == null ? all : amount;
      replayed = state.equals("used") && Long.valueOf(used).equals(d.get("confirmed"));
      if (!replayed && !state.equals("held")) {
        return problem(409, "not_held");
      }
      if (used > all) {
        return problem(409, "amount_exceeds_remaining");
      }
      if (!replayed) {
        d.put("confirmed", used);
        d.put("state", "used");
        giveBack(budget, d, all - used);
        note("confirm", budget, d, used);
      }
    } else if (state.equals("used") || state.equals("held")) {
      long left = all - (Long) d.get("rolled_back");
      if (verb.equals("rollback") && amount != null && amount > left) {
        return problem(409, "amount_exceeds_remaining");
      }
      long back = amount == null ? left : amount;
      giveBack(budget, d, back);
      d.put("state", back == left ? "rolled_back" : state);
      note("rollback", budget, d, back);
    }
    Map<String, Object> answer = new LinkedHashMap<>(d);
    answer.put("replayed", replayed);
    return answer;
  }

  private void giveBack(String budget, Map<String, Object> d, long amount) {
    budgets.merge(budget, amount, Long::sum);
    d.merge("rolled_back", amount, (before, more) -> (Long) before + (Long) more);
  }

  private void note(String kind, String budget, Map<String, Object> d, long amount) {
    entries.add(Map.of("kind", kind, "budget", budget, "bucket", "fake", "entry",
        entries.size() + 1, "request_id", d.get("request_id"), "amount", amount, "held",
        d.get("state").equals("held")));
  }

  private static Map<String, Object> deduction(String requestId, String state, long amount) {
    return new LinkedHashMap<>(Map.of("request_id", requestId, "state", state, "amount", amount,
        "rolled_back", 0L, "bucket", "fake"));
  }

  private static Map<String, Object> problem(int status, String code) {
    return new LinkedHashMap<>(Map.of("type", "urn:budgetd:problem:" + code, "title", code,
        "status", status, "code", code));
  }

  private static String text(Map<String, Object> of, String name) {
    return of.get(name) instanceof String text ? text : "";
  }

  private static Map<String, Object> map(Object value) {
    Map<String, Object> all = new LinkedHashMap<>();
    ((Map<?, ?>) value).forEach((name, member) -> all.put((String) name, member));
    return all;
  }
}
