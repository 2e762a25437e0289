package io.budgetd;

/** It certainly did not happen: not reachable, unavailable, or a failed read. Repeat it later. */
public final class NotNow extends BudgetdException {
  private static final long serialVersionUID = 1;

  NotNow(String op, String message) {
    this(op, message, Problem.NONE);
  }

  NotNow(String op, String message, Problem problem) {
    super("not_now", op, message, problem);
  }
}
