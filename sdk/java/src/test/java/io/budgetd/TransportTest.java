package io.budgetd;

import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsParameters;
import com.sun.net.httpserver.HttpsServer;
import io.budgetd.api.Api;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/** What counts as sent, how answers are framed, and TLS. */
final class TransportTest {
  private static final Retry ONE = new Retry(1, null, null, null, Duration.ofMillis(1500));
  private static final String BODY = "{\"outcome\":\"accepted\",\"state\":\"used\"}";
  private static final String HEAD = "HTTP/1.1 200 OK\r\n";
  private static final String LENGTH = HEAD + "Content-Length: " + BODY.length() + "\r\n\r\n";
  private static final String CHUNKS = HEAD + "Transfer-Encoding: chunked\r\n\r\n5;x=1\r\n"
      + BODY.substring(0, 5) + "\r\n20\r\n" + BODY.substring(5) + "\r\n0\r\n\r\n";

  private TransportTest() {}

  static void all() {
    framed("length", LENGTH + BODY, "used");
    framed("chunks", CHUNKS, "used");
    framed("to the end", HEAD + "\r\n" + BODY, "used");
    framed("lost", "", "unknown");
    framed("cut", HEAD + "Content-Length: 1000\r\n\r\n" + BODY, "unknown");
    framed("cut in a chunk", CHUNKS.substring(0, CHUNKS.length() - 30), "unknown");
    framed("too slow", null, "unknown");
    String spaces = " ".repeat(40_000_000);
    framed("too long", HEAD + "Content-Length: " + (BODY.length() + spaces.length()) + "\r\n\r\n"
        + BODY + spaces, "unknown");
    framed("another protocol", "SSH-2.0-OpenSSH\r\n\r\n", "unknown");
    framed("members of other types", HEAD + "\r\n" + BODY.replace("\"used\"", "[]"), "unknown");
    framed("a redirect", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
        + "Content-Length: 0\r\n\r\n", "faulty");
    Check.test("nobody listens", TransportTest::nobodyListens);
    Check.test("connections are used again", TransportTest::reused);
    Check.test("addresses", TransportTest::addresses);
    Check.test("an interrupted call", TransportTest::interrupted);
    Check.test("TLS", TransportTest::tls);
  }

  /** A server that gives one connection after the other its replies. null is no reply. */
  private static final class Server implements AutoCloseable {
    final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    final AtomicInteger connections = new AtomicInteger();

    Server(List<List<String>> replies) throws IOException {
      Thread thread = new Thread(() -> {
        for (List<String> one : replies) {
          try (Socket connection = listener.accept()) {
            connections.incrementAndGet();
            for (String reply : one) {
              int last = 0;
              while (last != '}' && last >= 0) { // head and body may come apart
                last = connection.getInputStream().read();
              }
              if (reply == null) {
                Thread.sleep(4000);
              } else {
                connection.getOutputStream().write(reply.getBytes(StandardCharsets.UTF_8));
              }
            }
          } catch (IOException | InterruptedException e) {
            // the client has seen enough
          }
        }
      });
      thread.setDaemon(true);
      thread.start();
    }

    String url() {
      return "http://127.0.0.1:" + listener.getLocalPort();
    }

    @Override
    public void close() throws IOException {
      listener.close();
    }
  }

  private static List<String> one(String reply) {
    return Collections.singletonList(reply);
  }

  private static void framed(String name, String reply, String want) {
    Check.test("framing: " + name, () -> {
      try (Server server = new Server(List.of(one(reply)))) {
        Check.equal(outcome(Client.servers(server.url()).retry(ONE).build()), want, name);
      }
    });
  }

  /** Returns the state that a deduct gets, or the kind of its error. */
  private static String outcome(Client client) {
    try {
      return client.deduct("b", Api.DeductRequest.of("o1", 1)).state();
    } catch (BudgetdException e) {
      return e.kind();
    }
  }

  private static void nobodyListens() throws IOException {
    ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    listener.close();
    String url = "http://127.0.0.1:" + listener.getLocalPort();
    Check.equal(outcome(Client.servers(url).retry(ONE).build()), "not_now", url);
  }

  private static void reused() throws IOException, InterruptedException {
    String reply = LENGTH + BODY;
    try (Server server = new Server(List.of(List.of(reply, reply), List.of(reply)))) {
      Client client = Client.servers(server.url()).retry(ONE).build();
      for (int n = 0; n < 3; n++) {
        client.deduct("b", Api.DeductRequest.of("o" + n, 1));
        Thread.sleep(100); // the server has closed the connection after the second
      }
      Check.equal(server.connections.get(), 2, "connections");
    }
  }

  private static void addresses() {
    for (String address : List.of("", "http://", "ftp://h", "http://h?x=1", "http://u:secret@h",
        "h,", "http://h h")) {
      String said = Check.fails(IllegalArgumentException.class, () -> new Client(address))
          .getMessage();
      Check.that(!said.contains("secret"), said);
    }
  }

  /** An interrupt leaves the outcome open if the request left, and is noted in the thread. */
  private static void interrupted() throws IOException {
    try (Server server = new Server(List.of(one(null), one(LENGTH + BODY)))) {
      Thread caller = Thread.currentThread();
      Clock.REAL.later(200_000_000, caller::interrupt);
      Client client = Client.servers(server.url()).build();
      Check.equal(outcome(client), "unknown", "while it waits");
      Check.that(Thread.currentThread().isInterrupted(), "the interrupt is not noted");
      Check.equal(outcome(client), "not_now", "before it begins");
      Check.that(Thread.interrupted(), "the interrupt is not noted");
    }
  }

  private static void tls() throws Exception {
    Path folder = Files.createTempDirectory("budgetd-tls");
    try {
      pair(folder, "server");
      pair(folder, "client");
      SSLContext ours = Tls.context(folder.resolve("client.crt"), folder.resolve("server.crt"),
          folder.resolve("server.key"));
      HttpsServer server =
          HttpsServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
      server.setHttpsConfigurator(new HttpsConfigurator(ours) {
        @Override
        public void configure(HttpsParameters p) {
          SSLParameters needed = getSSLContext().getDefaultSSLParameters();
          needed.setNeedClientAuth(true);
          p.setSSLParameters(needed);
        }
      });
      server.createContext("/", exchange -> {
        exchange.sendResponseHeaders(200, BODY.length());
        exchange.getResponseBody().write(BODY.getBytes(StandardCharsets.UTF_8));
        exchange.close();
      });
      server.start();
      String url = "https://127.0.0.1:" + server.getAddress().getPort();
      Retry retry = Retry.attempts(1);
      SSLContext known = Tls.context(folder.resolve("server.crt"), folder.resolve("client.crt"),
          folder.resolve("client.key"));
      Check.equal(outcome(Client.servers(url).retry(retry).tls(known).build()), "used", "known");
      Check.equal(outcome(Client.servers(url).retry(retry).build()), "not_now", "untrusted server");
      String stranger = outcome(Client.servers(url).retry(retry)
          .tls(Tls.trusting(folder.resolve("server.crt"))).build());
      Check.that(!stranger.equals("used"), "a client without a certificate was served");
      server.stop(0);
    } finally {
      for (Path file : Files.list(folder).toList()) {
        Files.delete(file);
      }
      Files.delete(folder);
    }
  }

  /** Writes a certificate of its own and its key as PEM files. */
  private static void pair(Path folder, String name) throws Exception {
    Path store = folder.resolve(name + ".p12");
    Process keytool = new ProcessBuilder(
        Path.of(System.getProperty("java.home"), "bin", "keytool").toString(), "-genkeypair",
        "-keyalg", "EC", "-alias", name, "-dname", "CN=" + name, "-ext", "san=ip:127.0.0.1",
        "-keystore", store.toString(), "-storepass", "secret", "-storetype", "PKCS12")
        .redirectErrorStream(true).start();
    String said = new String(keytool.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    Check.equal(keytool.waitFor(), 0, said);
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream in = new FileInputStream(store.toFile())) {
      keys.load(in, "secret".toCharArray());
    }
    pem(folder.resolve(name + ".crt"), "CERTIFICATE", keys.getCertificate(name).getEncoded());
    pem(folder.resolve(name + ".key"), "PRIVATE KEY",
        keys.getKey(name, "secret".toCharArray()).getEncoded());
  }

  private static void pem(Path file, String what, byte[] bytes) throws IOException {
    Files.writeString(file, "-----BEGIN " + what + "-----\n"
        + Base64.getMimeEncoder().encodeToString(bytes) + "\n-----END " + what + "-----\n");
  }
}
