package io.budgetd;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** The time of a client, in nanoseconds; tests have one of their own. */
interface Clock {
  long now();

  void sleep(long nanos) throws InterruptedException;

  /** Calls what after some time in a thread of its own, and returns what prevents it. */
  Runnable later(long nanos, Runnable what);

  Clock REAL = new Clock() {
    private final long began = System.nanoTime();

    @Override
    public long now() {
      return System.nanoTime() - began;
    }

    @Override
    public void sleep(long nanos) throws InterruptedException {
      TimeUnit.NANOSECONDS.sleep(nanos);
    }

    @Override
    public Runnable later(long nanos, Runnable what) {
      CountDownLatch stopped = new CountDownLatch(1);
      Thread thread = new Thread(() -> {
        try {
          if (!stopped.await(nanos, TimeUnit.NANOSECONDS)) {
            what.run();
          }
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt(); // nobody has this thread to interrupt it
        }
      }, "budgetd-heartbeat");
      thread.setDaemon(true);
      thread.start();
      return stopped::countDown;
    }
  };
}
