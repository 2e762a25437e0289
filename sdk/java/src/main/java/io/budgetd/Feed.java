package io.budgetd;

import io.budgetd.Calls.Until;
import io.budgetd.api.Api;
import java.util.Iterator;

/** A reader of the feed from a cursor on. It belongs to one thread. */
final class Feed implements Iterator<Api.FeedPage> {
  static final long MAX_WAIT = 30_000_000_000L;
  private static final long USUAL_WAIT = 20_000_000_000L;

  private final Calls calls;
  private final String budget;
  private final int limit;
  private final long wait;
  private String after;

  Feed(Calls calls, String budget, String after, int limit, long wait) {
    this.calls = calls;
    this.budget = budget;
    this.after = after;
    this.limit = limit;
    this.wait = Math.min(wait > 0 ? wait : USUAL_WAIT, MAX_WAIT);
  }

  @Override
  public boolean hasNext() {
    return true;
  }

  @Override
  public Api.FeedPage next() {
    BudgetdException last = null;
    for (int idle = 1; ; idle++) {
      long began = calls.clock.now();
      long asked = 0;
      try {
        What what = What.feed(budget, after, limit, wait);
        Api.FeedPage page = calls.run(what, Until.EVER, Api.FeedPage.class);
        after = page.next();
        if (!page.entries().isEmpty()) {
          return page;
        }
        if (calls.clock.now() - began >= wait / 2) {
          idle--; // the server has waited already
          continue;
        }
      } catch (BudgetdException e) {
        boolean interrupted = Thread.currentThread().isInterrupted();
        if (interrupted || !e.undecided() || e.code().equals("internal")) {
          throw e;
        }
        last = e;
        asked = Math.min(e.retryAfter().toNanos(), Calls.MAX_RETRY_AFTER);
      }
      if (!calls.slept(Math.max(asked, calls.jitter(idle)), false)) {
        throw last != null ? last : new NotNow("feed", "feed: interrupted");
      }
    }
  }
}
