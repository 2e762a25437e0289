package io.budgetd;

import io.budgetd.api.Api;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;

/** Calls real servers: a budgetd, and the fake one. */
final class ServerTest {
  private ServerTest() {}

  static void all(String url) {
    Check.test("a program with budgetd", () -> program(new Client(url)));
    Check.test("a program with the fake server", () -> {
      try (FakeServer server = new FakeServer(Map.of("sale", 1000L))) {
        program(new Client(server.url()));
        Check.equal(server.left("sale"), 997L, "what is left");
      }
    });
    Check.test("a hold that lasts longer than its time", () -> holds(new Client(url)));
    Check.test("interrupted holds", () -> interrupted(new Client(url)));
    Check.test("a hold whose deduct is interrupted", ServerTest::interruptedDeduct);
    Check.test("an answer that is not the last one", ServerTest::notTheLast);
    Check.test("only what was cancelled says so", ServerTest::cancelledItems);
    Check.test("request ids", ServerTest::ids);
  }

  private static void program(Client plain) {
    Client client = plain.within(Duration.ofSeconds(20));
    String one = Client.newRequestId();
    String two = Client.newRequestId();
    String three = Client.newRequestId();
    Api.DeductAnswer answer = client.deduct("sale", Api.DeductRequest.of(one, 3));
    Check.equal(List.of(answer.state(), answer.replayed()), List.of("used", false), "first");
    Check.that(client.deduct("sale", Api.DeductRequest.of(one, 3)).replayed(), "not replayed");
    Check.fails(Conflict.class, () -> client.deduct("sale", Api.DeductRequest.of(one, 4)));
    Refused refusal = Check.fails(Refused.class,
        () -> client.deduct("sale", Api.DeductRequest.of(two, 1_000_000)));
    Check.equal(refusal.code(), "budget_exhausted", "code");
    Check.that(refusal.available() > 0, "nothing is available");
    Check.fails(Faulty.class, () -> client.deduct("no-such", Api.DeductRequest.of(two, 1)));
    Check.fails(Faulty.class, () -> client.deduct("..", Api.DeductRequest.of(two, 1)));
    Check.fails(Faulty.class, () -> client.hold("sale", Api.DeductRequest.of(two, 1)));
    List<Result> results = client.batch(
        List.of(Api.BatchItem.of("sale", two, 1), Api.BatchItem.of("no-such", "x", 1)));
    Check.equal(results.get(0).answer().state(), "used", "an item");
    Check.that(results.get(1).error() instanceof Faulty, "no error of an item");
    Check.equal(client.check(List.of(Api.CheckItem.of("sale", 1))).get(0).answer().outcome(),
        "would_be_accepted", "check");
    client.deduct("sale", Api.DeductRequest.of(three, 5).withHoldTtl("1m"));
    client.extend("sale", Api.ExtendRequest.of("2m").withRequestId(three));
    Check.equal(client.confirm("sale",
        Api.ConfirmRequest.of().withRequestId(three).withAmount(2L)).confirmed(), 2L, "confirmed");
    Check.equal(client.rollback("sale", Api.RollbackRequest.of().withRequestId(one)).state(),
        "rolled_back", "rollback");
    Check.equal(client.cancel("sale", Api.CancelRequest.of(three + "-never")).state(), "void",
        "cancel");
    Check.equal(client.find("sale", one).state(), "rolled_back", "find");
    Api.FeedPage page = client.feed("sale", "", 1000, Duration.ZERO);
    Check.that(page.entries().stream().anyMatch(e -> e.requestId().equals(three)), "not in feed");
    Check.equal(client.feed("sale", page.next()).entries(), List.of(), "the page after it");
  }

  private static void holds(Client client) throws InterruptedException {
    String name = Client.newRequestId();
    try (Hold hold = client.hold("sale", Api.DeductRequest.of(name, 7).withHoldTtl("600ms"))) {
      Thread.sleep(900); // a heartbeat extends it
      Check.equal(hold.lost(), null, "lost");
    }
    Check.equal(client.find("sale", name).state(), "rolled_back", "after the block");
  }

  private static void interrupted(Client client) throws InterruptedException {
    for (boolean dispatched : List.of(false, true)) {
      String name = Client.newRequestId();
      CountDownLatch held = new CountDownLatch(1);
      Thread worker = new Thread(() -> {
        try (Hold hold = client.hold("sale", Api.DeductRequest.of(name, 7).withHoldTtl("1m"))) {
          if (dispatched) {
            hold.dispatched();
          }
          held.countDown();
          while (!Thread.currentThread().isInterrupted()) {
            Thread.onSpinWait();
          }
        }
      });
      worker.start();
      held.await();
      worker.interrupt();
      worker.join();
      Api.Deduction recorded = client.find("sale", name);
      Check.equal(recorded.state(), dispatched ? "used" : "rolled_back", "the hold");
      Check.equal(recorded.confirmed(), dispatched ? 7L : null, "confirmed");
    }
  }

  /** The hold that may have been made is cancelled, although the thread is interrupted. */
  private static void interruptedDeduct() {
    Set<String> called = new HashSet<>();
    Transport transport = send -> {
      called.add(send.target());
      if (!send.deaf()) {
        Thread.currentThread().interrupt();
        throw new Transport.NoAnswer("interrupted", true);
      }
      return new Transport.Answer(200, Map.of(),
          "{\"state\":\"void\"}".getBytes(StandardCharsets.UTF_8));
    };
    Client client = Client.servers("h").simulated(transport, Clock.REAL).build();
    Check.fails(Unknown.class,
        () -> client.hold("b", Api.DeductRequest.of("o1", 1).withHoldTtl("1m")));
    Check.that(Thread.interrupted(), "the interrupt is not noted");
    Check.equal(called, Set.of("/v1/budgets/b/deduct", "/v1/budgets/b/cancel"), "calls");
  }

  /** A transport may not know that another answer follows, so the outcome is open. */
  private static void notTheLast() {
    byte[] body = "{\"outcome\":\"accepted\"}".getBytes(StandardCharsets.UTF_8);
    Transport transport = send -> new Transport.Answer(102, Map.of(), body);
    Client client = Client.servers("h").retry(Retry.attempts(1))
        .simulated(transport, Clock.REAL).build();
    Check.fails(Unknown.class, () -> client.deduct("b", Api.DeductRequest.of("o1", 1)));
  }

  /** The error of a batch as a whole is that of each item, but only an open one is cancelled. */
  private static void cancelledItems() {
    String open = "{\"results\":[{\"code\":\"unavailable\"},{\"code\":\"outcome_unknown\"}]}";
    Deque<String> answers = new ArrayDeque<>(
        List.of("200" + open, "403{\"code\":\"forbidden\"}", "200{\"state\":\"void\"}"));
    Transport transport = send -> {
      String answer = answers.remove();
      return new Transport.Answer(Integer.parseInt(answer.substring(0, 3)), Map.of(),
          answer.substring(3).getBytes(StandardCharsets.UTF_8));
    };
    Client client = Client.servers("h").simulated(transport, Clock.REAL).build();
    List<Result> results = client.batch(
        List.of(Api.BatchItem.of("b", "o0", 1), Api.BatchItem.of("b", "o1", 1)));
    Check.equal(results.stream().map(one -> one.error().cancelled()).toList(),
        List.of(false, true), "cancelled");
  }

  private static void ids() {
    Set<String> ids = new HashSet<>();
    for (int i = 0; i < 100; i++) {
      ids.add(Client.newRequestId());
    }
    Check.equal(ids.size(), 100, "different ids");
    for (String id : ids) {
      Check.that(id.matches("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
          id);
    }
    long time = Long.parseLong(ids.iterator().next().substring(0, 13).replace("-", ""), 16);
    Check.that(Math.abs(time - System.currentTimeMillis()) < 60_000, "the time in " + ids);
  }
}
