package io.budgetd;

import io.budgetd.api.Api;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * A call, ready to be sent any number of times. good tells whether an answer is about the request;
 * a proxy may have made another one. cancel makes certain that the call has no effect. longer is
 * how many nanoseconds an attempt may take beyond its time.
 */
record What(String op, List<String> path, Object body, Map<String, String> query,
    String requestId, boolean read, long longer, Predicate<Object> good, What cancel) {

  static What deduct(String budget, Api.DeductRequest r) {
    boolean read = Boolean.TRUE.equals(r.dryRun());
    What cancel = read ? null : settle("cancel", budget, r.requestId(), null,
        new Api.CancelRequest(r.requestId(), r.key() == null ? "" : r.key(),
            r.dimensions() == null ? Map.of() : r.dimensions(), null));
    return new What("deduct", List.of("v1", "budgets", text(budget), "deduct"), r, Map.of(),
        text(r.requestId()), read, 0, about(text(r.requestId()), "outcome"), cancel);
  }

  static What deduct(Api.BatchItem r) {
    return deduct(r.budget(), new Api.DeductRequest(r.requestId(), r.amount(), r.key(),
        r.dimensions(), r.counts(), r.holdTtl(), r.group(), r.above(), r.expiresAs(),
        r.reference(), r.dryRun()));
  }

  static What settle(String op, String budget, String requestId, String group, Object request) {
    boolean one = !text(requestId).isEmpty() || text(group).isEmpty();
    return new What(op, List.of("v1", "budgets", text(budget), op), request, Map.of(),
        one ? text(requestId) : group, false, 0,
        one ? about(text(requestId), "state") : aboutGroup(group), null);
  }

  static What renew(String budget, Api.RenewRequest r) {
    return new What("renew", List.of("v1", "budgets", text(budget), "renew"), r, Map.of(),
        text(r.requestId()), false, 0, aboutStep(text(r.requestId())), null);
  }

  static What deductSet(Api.SetRequest r) {
    boolean read = Boolean.TRUE.equals(r.dryRun());
    What cancel = read ? null
        : onSet("cancel", r.requestId(), new Api.SetCancel(r.requestId()));
    return new What("deduct set", List.of("v1", "deductions"), r, Map.of(), text(r.requestId()),
        read, 0, about(text(r.requestId()), "outcome"), cancel);
  }

  static What onSet(String verb, String requestId, Object request) {
    return new What(verb + " set", List.of("v1", "deductions", verb), request, Map.of(),
        text(requestId), false, 0, about(text(requestId), "state"), null);
  }

  static What batch(List<Api.BatchItem> items) {
    return new What("batch", List.of("v1", "deductions:batch"), new Api.BatchRequest(items),
        Map.of(), "", false, 0, complete(items.size()), null);
  }

  static What check(List<Api.CheckItem> items) {
    return new What("check", List.of("v1", "checks"), new Api.CheckRequest(items), Map.of(), "",
        true, 0, answer -> answer instanceof Map, null);
  }

  static What find(String budget, String requestId, String key) {
    return new What("find", List.of("v1", "budgets", text(budget), "deductions"), null,
        Map.of("request_id", requestId, "key", key), requestId, true, 0,
        about(requestId, "state"), null);
  }

  static What feed(String budget, String after, int limit, long wait) {
    Map<String, String> query = new LinkedHashMap<>();
    if (!after.isEmpty()) {
      query.put("after", after);
    }
    if (limit != 0) {
      query.put("limit", String.valueOf(limit));
    }
    if (wait > 0) {
      query.put("wait", Durations.seconds(wait));
    }
    return new What("feed", List.of("v1", "budgets", text(budget), "ledger"), null, query, "",
        true, wait, answer -> answer instanceof Map<?, ?> m && m.get("entries") instanceof List,
        null);
  }

  /** Returns the call with answers that a record of a type can hold. */
  What with(Class<?> type) {
    Predicate<Object> readable = answer -> {
      try {
        Records.of(type, answer);
        return true;
      } catch (IllegalArgumentException e) {
        return false;
      }
    };
    return new What(op, path, body, query, requestId, read, longer, good.and(readable), cancel);
  }

  /** Returns whether an answer has n results. */
  static Predicate<Object> complete(int n) {
    return answer -> answer instanceof Map<?, ?> m
        && m.get("results") instanceof List<?> results && results.size() == n;
  }

  /** Returns whether an answer has a member and is about a request id. */
  private static Predicate<Object> about(String requestId, String member) {
    return answer -> {
      if (!(answer instanceof Map<?, ?> m) || !isText(m.get(member))) {
        return false;
      }
      Object named = m.get("request_id");
      return named == null || named.equals("") || named.equals(requestId);
    };
  }

  /** Returns whether an answer is about a step of a request id. */
  private static Predicate<Object> aboutStep(String requestId) {
    return answer -> answer instanceof Map<?, ?> m && m.get("step") instanceof Long step
        && step > 0 && requestId.equals(m.get("request_id"));
  }

  /** Returns whether an answer is about the holds of a group. */
  private static Predicate<Object> aboutGroup(String group) {
    return answer -> answer instanceof Map<?, ?> m && group.equals(m.get("group"))
        && m.get("deductions") instanceof List<?> all && !all.isEmpty()
        && all.stream().allMatch(one -> one instanceof Map<?, ?> d && isText(d.get("state")));
  }

  private static boolean isText(Object value) {
    return value instanceof String text && !text.isEmpty();
  }

  private static String text(String text) {
    return text == null ? "" : text;
  }
}
