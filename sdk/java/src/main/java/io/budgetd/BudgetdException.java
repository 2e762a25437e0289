package io.budgetd;

import java.time.Duration;
import java.util.Map;

/** What is known of a failed call. Its subclasses say what that means for the caller. */
public abstract sealed class BudgetdException extends RuntimeException
    permits Refused, Conflict, NotNow, Unknown, Faulty {
  private static final long serialVersionUID = 1;

  private final String kind;
  private final String op;
  private final transient Problem problem;
  private boolean cancelled;

  BudgetdException(String kind, String op, String message, Problem problem) {
    super(message);
    this.kind = kind;
    this.op = op;
    this.problem = problem;
  }

  /** Returns the word for the kind: refused, conflict, not_now, unknown or faulty. */
  public String kind() {
    return kind;
  }

  /** Returns the call that failed, such as deduct. */
  public String op() {
    return op;
  }

  /** Returns the error code; "" if no answer of budgetd has one. */
  public String code() {
    return known().text("code");
  }

  /** Returns the HTTP status; 0 if there was no answer. */
  public int status() {
    return known().status();
  }

  /** Returns the whole problem document; it is empty if there was no answer. */
  public Map<String, Object> problem() {
    return known().members();
  }

  /** Returns how many units could be deducted; null if the answer does not say. */
  public Long available() {
    return known().members().get("available") instanceof Long n ? n : null;
  }

  /** Returns the limit that refuses; null if none does. */
  public String limit() {
    return known().members().get("limit") instanceof String name ? name : null;
  }

  /** Returns whether no repetition can help, as things are defined. */
  public boolean never() {
    return Boolean.TRUE.equals(known().members().get("never"));
  }

  /** Returns after what time it is worth while to repeat the call; zero if unknown. */
  public Duration retryAfter() {
    return Duration.ofNanos(known().retryAfter());
  }

  /** Returns the request id of a call whose outcome is open; "" if none is known. */
  public String requestId() {
    return known().text("request_id");
  }

  /** Returns the id of the answer in the logs of budgetd; "" without an answer. */
  public String correlationId() {
    return known().text("correlation_id");
  }

  /** Returns whether the client cancelled the id, because an earlier attempt was unanswered. */
  public boolean cancelled() {
    return cancelled;
  }

  @Override
  public String getMessage() {
    String text = super.getMessage();
    if (known().retryAfter() > 0) {
      text += " (retry after " + Durations.seconds(known().retryAfter()) + ")";
    }
    return cancelled ? text + " (the request id was cancelled: try again with another)" : text;
  }

  /** Returns a copy, because the items of a batch may share an error. */
  BudgetdException asCancelled() {
    BudgetdException copy = Problem.make(kind, op, super.getMessage(), known());
    copy.cancelled = true;
    copy.setStackTrace(getStackTrace());
    return copy;
  }

  /** Returns whether another attempt of the same call can help. */
  boolean undecided() {
    return (this instanceof NotNow || this instanceof Unknown) && !never();
  }

  private Problem known() {
    return problem == null ? Problem.NONE : problem; // null after a deserialization
  }
}
