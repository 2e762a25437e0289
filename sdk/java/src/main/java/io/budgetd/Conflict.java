package io.budgetd;

/** It contradicts what is recorded; nothing was changed. */
public final class Conflict extends BudgetdException {
  private static final long serialVersionUID = 1;

  Conflict(String op, String message) {
    this(op, message, Problem.NONE);
  }

  Conflict(String op, String message, Problem problem) {
    super("conflict", op, message, problem);
  }
}
