package io.budgetd;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;

/** Compiles and runs the code of README.md as it stands. */
final class ReadmeTest {
  private static final Pattern BLOCK = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);

  private ReadmeTest() {}

  static void all(String url, Path readme) throws Exception {
    String text = Files.readString(readme);
    Check.test("README", () -> {
      List<String> blocks = new ArrayList<>();
      for (Matcher m = BLOCK.matcher(text); m.find(); ) {
        blocks.add(m.group(1));
      }
      Check.equal(blocks.size(), 2, "blocks");
      Check.that(blocks.get(0).lines().count() <= 14, "the first block is longer");
      String said = run(blocks.get(0).replace("http://127.0.0.1:8080", url)
          + "System.out.println(order);\n");
      Check.that(said.startsWith("used\n"), said);
      String order = said.split("\n")[1];
      Check.equal(new Client(url).find("sale", order + "-ai").confirmed(), 42L, "confirmed");
      Check.equal(run(blocks.get(1)), "95\n", "the second block");
    });
  }

  /** Puts imports before a class and the rest into its main, and returns what it prints. */
  private static String run(String block) throws Exception {
    String imports = block.lines().filter(line -> line.startsWith("import "))
        .collect(Collectors.joining("\n"));
    String body = block.lines().filter(line -> !line.startsWith("import "))
        .collect(Collectors.joining("\n"));
    Path folder = Files.createTempDirectory("budgetd-readme");
    Path source = folder.resolve("Shop.java");
    PrintStream out = System.out;
    try {
      Files.writeString(source, imports + "\npublic class Shop {\n"
          + "  public static void main(String[] args) throws Exception {\n" + body + "\n}}\n");
      ByteArrayOutputStream said = new ByteArrayOutputStream();
      int failed = ToolProvider.getSystemJavaCompiler().run(null, said, said, "-Xlint:all",
          "-Werror", "-cp", System.getProperty("java.class.path"), "-d", folder.toString(),
          source.toString());
      Check.equal(failed, 0, said.toString(StandardCharsets.UTF_8));
      said.reset();
      System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
      try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
        loader.loadClass("Shop").getMethod("main", String[].class)
            .invoke(null, (Object) new String[0]);
      }
      return said.toString(StandardCharsets.UTF_8);
    } finally {
      System.setOut(out);
      for (Path file : Files.list(folder).toList()) {
        Files.delete(file);
      }
      Files.delete(folder);
    }
  }
}
