package io.budgetd;

import java.time.Duration;

/**
 * The bounds of repeats. Without attempts (0) a call repeats as long as another attempt begins
 * within some time of the first, by default 10 s. Before attempt n+1 it waits for Retry-After and a
 * random time up to min(max, base * 2^(n-1)). What is null has its default.
 */
public record Retry(
    int attempts, Duration within, Duration base, Duration max, Duration attemptTimeout) {
  /** The defaults. */
  public static final Retry STANDARD = new Retry(0, null, null, null, null);

  /** Fills what is left out. */
  public Retry {
    if (attempts <= 0) {
      attempts = 1000; // the time bounds them
      within = within == null ? Duration.ofSeconds(10) : within;
    }
    base = base == null ? Duration.ofMillis(50) : base;
    max = max == null ? Duration.ofSeconds(1) : max;
    attemptTimeout = attemptTimeout == null ? Duration.ofSeconds(10) : attemptTimeout;
  }

  /** Returns the defaults with a number of attempts. */
  public static Retry attempts(int n) {
    return new Retry(n, null, null, null, null);
  }

  /** Returns the longest random wait before attempt n+1, in nanoseconds. */
  double ceiling(int n) {
    return Math.min(Durations.nanos(max), Durations.nanos(base) * Math.pow(2, Math.min(n - 1, 60)));
  }
}
