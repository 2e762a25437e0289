package io.budgetd;

import io.budgetd.api.Kinds;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The members of a problem document, and after how many nanoseconds to repeat the call. */
record Problem(Map<String, Object> members, int status, long retryAfter) {
  static final Problem NONE = new Problem(Map.of(), 0, 0);

  /** Returns a problem that the client states itself. */
  static Problem of(String code, int status, String requestId) {
    return new Problem(Map.of("code", code, "request_id", requestId), status, 0);
  }

  String text(String name) {
    return members.get(name) instanceof String text ? text : "";
  }

  /** Returns the error of an answer that is no success. */
  static BudgetdException error(
      String op, Object document, int status, boolean read, Map<String, String> headers) {
    Map<String, Object> members = new LinkedHashMap<>();
    if (document instanceof Map<?, ?> map) {
      map.forEach((name, value) -> members.put((String) name, value));
    }
    boolean ours = members.get("code") instanceof String code && !code.isEmpty();
    if (!ours) {
      members.remove("code");
    }
    if (headers.containsKey("x-correlation-id")) {
      members.put("correlation_id", headers.get("x-correlation-id"));
    }
    long after = Math.max(
        nanos(members.get("retry_after")), nanos(headers.get("retry-after")));
    Problem problem = new Problem(Collections.unmodifiableMap(members), status, after);
    String kind = Kinds.OF.getOrDefault(problem.text("code"), kindOf(status, ours));
    if (kind.equals("unknown") && read) {
      kind = "not_now";
    }
    return make(kind, op, problem.message(op, ours, headers.get("location")), problem);
  }

  private String message(String op, boolean ours, String location) {
    if (!ours) {
      return op + ": HTTP status " + status + (location == null
          ? ": not an answer of budgetd; is this the right address?"
          : ": the server redirects to " + location + "; use that address");
    }
    String detail = text("detail").isEmpty() ? text("title") : text("detail");
    StringBuilder all = new StringBuilder(op + ": " + text("code") + ": " + detail);
    if (members.get("errors") instanceof List<?> faults) {
      for (Object fault : faults) {
        if (fault instanceof Map<?, ?> one) {
          all.append("; ").append(one.get("field")).append(": ").append(one.get("message"));
        }
      }
    }
    return all.toString();
  }

  static BudgetdException make(String kind, String op, String message, Problem problem) {
    return switch (kind) {
      case "refused" -> new Refused(op, message, problem);
      case "conflict" -> new Conflict(op, message, problem);
      case "not_now" -> new NotNow(op, message, problem);
      case "unknown" -> new Unknown(op, message, problem);
      default -> new Faulty(op, message, problem);
    };
  }

  /** Returns the kind of a status. Only one of a server that is not budgetd's proves little. */
  private static String kindOf(int status, boolean ours) {
    if (status >= 500 || status == 408 || status == 429 && !ours) {
      return "unknown";
    }
    if (ours && (status == 409 || status == 429)) {
      return "refused";
    }
    return ours && status == 412 ? "conflict" : "faulty";
  }

  private static long nanos(Object value) {
    try {
      double seconds = value == null ? 0 : Double.parseDouble(value.toString());
      return seconds > 0 ? (long) (Math.min(seconds, 9e9) * 1e9) : 0;
    } catch (NumberFormatException e) {
      return 0;
    }
  }
}
