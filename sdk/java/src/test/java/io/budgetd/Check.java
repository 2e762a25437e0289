package io.budgetd;

import java.util.Objects;

/** As much of a test library as these tests need. */
final class Check {
  private static int tests;
  private static int failures;

  private Check() {}

  interface Code {
    void run() throws Exception;
  }

  /** Runs a test and prints its failure. */
  static void test(String name, Code code) {
    tests++;
    try {
      code.run();
    } catch (Throwable e) {
      failures++;
      System.out.println("FAILED " + name);
      e.printStackTrace(System.out);
    }
  }

  /** Prints the sum, and returns the exit status. */
  static int end() {
    System.out.println(tests + " tests, " + failures + " failed");
    return failures == 0 ? 0 : 1;
  }

  static void equal(Object got, Object want, String what) {
    that(Objects.equals(got, want), what + ": got " + got + ", want " + want);
  }

  static void that(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  static <E extends Throwable> E fails(Class<E> type, Code code) {
    try {
      code.run();
    } catch (Throwable e) {
      if (type.isInstance(e)) {
        return type.cast(e);
      }
      throw new AssertionError("another failure than " + type, e);
    }
    throw new AssertionError("no " + type);
  }
}
