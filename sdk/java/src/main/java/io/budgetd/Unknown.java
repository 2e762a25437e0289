package io.budgetd;

/** It may have happened. Repeat it with the same request id, or cancel that id. */
public final class Unknown extends BudgetdException {
  private static final long serialVersionUID = 1;

  Unknown(String op, String message) {
    this(op, message, Problem.NONE);
  }

  Unknown(String op, String message, Problem problem) {
    super("unknown", op, message, problem);
  }
}
