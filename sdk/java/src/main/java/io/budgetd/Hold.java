package io.budgetd;

import io.budgetd.Calls.Until;
import io.budgetd.api.Api;

/**
 * A hold around a block of code, for try-with-resources. Left without a confirm it is rolled back,
 * or, after dispatched(), confirmed with the estimate; an interrupt of the thread does not change
 * that. A heartbeat extends it at a third of its time, in a thread of its own. One thread settles
 * it; the other methods are safe for concurrent use.
 */
public final class Hold implements AutoCloseable {
  /** The time in which a hold that may have been made is cancelled, in nanoseconds. */
  static final long SETTLE_TIMEOUT = 10_000_000_000L;

  /** The fewest nanoseconds between two heartbeats. */
  private static final long SHORTEST_BEAT = 50_000_000;

  private final Client client;
  private final String budget;
  private final Api.DeductRequest request;
  private final Api.DeductAnswer answer;
  private volatile boolean dispatched;
  private volatile String done = "";
  private volatile BudgetdException lost;
  private volatile long lasts; // the nanoseconds that it lasts after the latest answer
  private volatile long step; // the last one of the stream that is known to be done
  private Settling tried; // may have happened
  private boolean ended;
  private Runnable stop = () -> {};

  /** How a hold is settled; the amount of a confirm is null for all of it. */
  private record Settling(String op, Long amount) {}

  Hold(Client client, String budget, Api.DeductRequest request, Api.DeductAnswer answer) {
    this.client = client;
    this.budget = budget;
    this.request = request;
    this.answer = answer;
    this.lasts = Durations.parse(request.holdTtl());
    learn(answer.expiresIn());
    beatLater();
  }

  /** Returns the answer of the deduct that made the hold. */
  public Api.DeductAnswer answer() {
    return answer;
  }

  /** Returns how it ended: confirmed, rolled_back, or lost if it was over before; "" before. */
  public String done() {
    return done;
  }

  /**
   * Returns why the heartbeat found that the hold is over, if it was not settled after all; null
   * if it did not.
   */
  public BudgetdException lost() {
    return lost;
  }

  /** Notes that the work has begun, so that an end without a confirm uses the estimate. */
  public void dispatched() {
    dispatched = true;
  }

  /** Uses all that is held. */
  public Api.Settlement confirm() {
    return end(new Settling("confirm", null), client.until());
  }

  /** Uses a part of what is held, and gives the rest back. */
  public Api.Settlement confirm(long amount) {
    return end(new Settling("confirm", amount), client.until());
  }

  /**
   * Makes the next step of a stream: used of what is held becomes used, and another amount is held
   * from now on. After an unknown outcome repeat it with the same amounts. The work counts as
   * dispatched.
   */
  public Api.Renewal renew(long used, long hold) {
    dispatched = true;
    Api.Renewal renewal = client.renew(budget, Api.RenewRequest.of(
        request.requestId(), step + 1, used, hold, request.holdTtl()).withReceipt(answer.receipt()));
    step = renewal.step();
    learn(renewal.expiresIn());
    return renewal;
  }

  /** Gives everything back. */
  public Api.Settlement rollback() {
    return end(new Settling("rollback", null), client.until());
  }

  /** Settles the hold if that is not done yet. An interrupt does not end it. */
  @Override
  public void close() {
    finish();
    if (done.isEmpty()) {
      Settling last = tried != null ? tried
          : new Settling(dispatched ? "confirm" : "rollback", null);
      end(last, new Until(client.until().deadline(), true));
    }
  }

  private Api.Settlement end(Settling how, Until until) {
    try {
      Api.Settlement settlement = how.op.equals("confirm")
          ? client.confirm(budget, new Api.ConfirmRequest(
              request.requestId(), null, how.amount, answer.receipt()), until)
          : client.rollback(budget, new Api.RollbackRequest(
              request.requestId(), null, null, null, null, null, answer.receipt()), until);
      done = how.op.equals("confirm") ? "confirmed" : "rolled_back";
      tried = null;
      finish();
      lost = null; // what a heartbeat found was this end
      return settlement;
    } catch (BudgetdException e) {
      if (e instanceof Conflict) {
        done = "lost";
      }
      tried = e instanceof NotNow || e instanceof Unknown ? how : null;
      throw e;
    }
  }

  /** Notes for how many seconds the hold lasts from an answer on; null says nothing. */
  private void learn(Double expiresIn) {
    if (expiresIn != null) {
      lasts = Math.round(expiresIn * 1000) * 1_000_000;
    }
  }

  /** Returns the nanoseconds between two heartbeats: a third of what is left. */
  private long period() {
    return Math.max(SHORTEST_BEAT, lasts / 3);
  }

  private synchronized void beatLater() {
    if (!ended) {
      stop = client.calls.clock.later(period(), this::beat);
    }
  }

  private synchronized void finish() {
    ended = true;
    stop.run();
  }

  private synchronized void note(BudgetdException over) {
    if (!ended) {
      lost = over;
    }
  }

  private void beat() {
    try {
      Until until = new Until(client.calls.clock.now() + period(), false);
      Api.ExtendRequest extend = Api.ExtendRequest.of(request.holdTtl())
          .withRequestId(request.requestId()).withReceipt(answer.receipt());
      learn(client.calls.run(What.settle("extend", budget, request.requestId(), null, extend), until,
          Api.Settlement.class).expiresIn());
    } catch (NotNow | Unknown e) {
      // the next heartbeat repeats it
    } catch (BudgetdException e) {
      note(e);
      return;
    } catch (RuntimeException e) { // what returns the key failed
      note(new Faulty("extend", "extend: " + e));
      return;
    }
    beatLater();
  }
}
