package io.budgetd;

/** Understood, and the answer is no; nothing was changed. */
public final class Refused extends BudgetdException {
  private static final long serialVersionUID = 1;

  Refused(String op, String message) {
    this(op, message, Problem.NONE);
  }

  Refused(String op, String message, Problem problem) {
    super("refused", op, message, problem);
  }
}
