package io.budgetd;

/** The request is wrong, or names something that does not exist. */
public final class Faulty extends BudgetdException {
  private static final long serialVersionUID = 1;

  Faulty(String op, String message) {
    this(op, message, Problem.NONE);
  }

  Faulty(String op, String message, Problem problem) {
    super("faulty", op, message, problem);
  }
}
