package io.budgetd;

import java.nio.file.Path;

/** Runs all tests, in the folder sdk/java. BUDGETD_URL is a budgetd with the budget "sale". */
public final class Tests {
  private Tests() {}

  public static void main(String[] args) throws Exception {
    JsonTest.all();
    VectorsTest.all(Path.of("../vectors.json"));
    TransportTest.all();
    ServerTest.all(System.getenv("BUDGETD_URL"));
    ReadmeTest.all(System.getenv("BUDGETD_URL"), Path.of("README.md"));
    System.exit(Check.end());
  }
}
