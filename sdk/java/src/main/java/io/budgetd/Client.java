package io.budgetd;

import io.budgetd.Calls.Until;
import io.budgetd.api.Api;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;

/**
 * Calls budgetd. It is safe for concurrent use; make one per service. Errors are Refused, Conflict,
 * NotNow, Unknown and Faulty. An interrupt of the thread ends a call as its deadline does, and
 * stays noted in the thread.
 */
public final class Client {
  private static final SecureRandom RANDOM = new SecureRandom();

  final Calls calls;
  private final long timeout; // nanoseconds for a whole call; 0 is without an end

  /**
   * Makes a client with the defaults. servers is a base URL, or several of equal nodes with commas.
   */
  public Client(String servers) {
    this(servers(servers).build().calls, 0);
  }

  Client(Calls calls, long timeout) {
    this.calls = calls;
    this.timeout = timeout;
  }

  /** Begins a client with settings; build makes it. */
  public static Settings servers(String servers) {
    return new Settings(servers);
  }

  /**
   * Returns a fresh request id: a UUID of version 7, which begins with the time. Store it with its
   * order before the first attempt: only the same id makes a repeat safe.
   */
  public static String newRequestId() {
    long high = System.currentTimeMillis() << 16 | 0x7000 | RANDOM.nextInt(0x1000);
    return new UUID(high, RANDOM.nextLong() >>> 2 | 1L << 63).toString();
  }

  /** Returns this client with a time for each whole call, repeats and waits included. */
  public Client within(Duration time) {
    return new Client(calls, Math.max(1, Durations.nanos(time)));
  }

  /** Takes units from a budget, at most once per request id. */
  public Api.DeductAnswer deduct(String budget, Api.DeductRequest request) {
    return calls.run(What.deduct(budget, request), until(), Api.DeductAnswer.class);
  }

  /**
   * Makes a hold and returns it as a scope, for try-with-resources. If the thread is interrupted
   * meanwhile, the hold that may have been made is cancelled.
   */
  public Hold hold(String budget, Api.DeductRequest request) {
    if (request.holdTtl() == null) {
      throw new Faulty("deduct", "deduct: a hold needs a hold_ttl");
    }
    try {
      return new Hold(this, budget, request, deduct(budget, request));
    } catch (Unknown e) {
      What cancel = What.deduct(budget, request).cancel();
      if (Thread.currentThread().isInterrupted() && cancel != null) {
        try {
          calls.run(cancel, new Until(calls.clock.now() + Hold.SETTLE_TIMEOUT, true));
        } catch (BudgetdException failure) {
          e.addSuppressed(failure);
        }
      }
      throw e;
    }
  }

  /** Makes up to 1,000 deductions, each by itself. */
  public List<Result> batch(List<Api.BatchItem> items) {
    return calls.batch(items, until());
  }

  /** Tells which deductions would be accepted now. */
  public List<Result> check(List<Api.CheckItem> items) {
    return calls.check(items, until());
  }

  /** Uses what is held, or a part of it, and gives the rest back. */
  public Api.Settlement confirm(String budget, Api.ConfirmRequest request) {
    return confirm(budget, request, until());
  }

  /** Holds for longer, from now on. */
  public Api.Settlement extend(String budget, Api.ExtendRequest request) {
    return calls.run(What.settle("extend", budget, request.requestId(), request.group(), request),
        until(), Api.Settlement.class);
  }

  /**
   * Makes one step of a stream: some of what is held becomes used, and another amount is held from
   * now on.
   */
  public Api.Renewal renew(String budget, Api.RenewRequest request) {
    return calls.run(What.renew(budget, request), until(), Api.Renewal.class);
  }

  /** Takes units from several budgets, all or none, at most once per request id of the tenant. */
  public Api.SetAnswer deductSet(Api.SetRequest request) {
    return calls.run(What.deductSet(request), until(), Api.SetAnswer.class);
  }

  /** Uses what a set holds, or the parts of the amounts, and gives the rest back. */
  public Api.Set confirmSet(Api.SetConfirm request) {
    return onSet("confirm", request.requestId(), request);
  }

  /** Holds a set for longer, from now on. */
  public Api.Set extendSet(Api.SetExtend request) {
    return onSet("extend", request.requestId(), request);
  }

  /** Gives units of a set back. */
  public Api.Set rollbackSet(Api.SetRollback request) {
    return onSet("rollback", request.requestId(), request);
  }

  /** Makes certain that the request id of a set has no effect. */
  public Api.Set cancelSet(Api.SetCancel request) {
    return onSet("cancel", request.requestId(), request);
  }

  private Api.Set onSet(String verb, String requestId, Object request) {
    return calls.run(What.onSet(verb, requestId, request), until(), Api.Set.class);
  }

  /** Gives units back. */
  public Api.Settlement rollback(String budget, Api.RollbackRequest request) {
    return rollback(budget, request, until());
  }

  /** Makes certain that a request id has no effect. */
  public Api.Deduction cancel(String budget, Api.CancelRequest request) {
    return calls.run(What.settle("cancel", budget, request.requestId(), null, request), until(),
        Api.Deduction.class);
  }

  /** Returns what is recorded of a request id. */
  public Api.Deduction find(String budget, String requestId) {
    return find(budget, requestId, "");
  }

  /** Returns what is recorded of a request id that was deducted with a key. */
  public Api.Deduction find(String budget, String requestId, String key) {
    return calls.run(What.find(budget, requestId, key), until(), Api.Deduction.class);
  }

  /** Returns the first page of the feed after a cursor; "" is the beginning. */
  public Api.FeedPage feed(String budget, String after) {
    return feed(budget, after, 0, Duration.ZERO);
  }

  /**
   * Returns a page of the feed after a cursor; its next is the cursor of the page after it. A limit
   * of 0 leaves the size to the server, which waits up to 30 s for an entry.
   */
  public Api.FeedPage feed(String budget, String after, int limit, Duration wait) {
    long nanos = Math.min(Durations.nanos(wait), Feed.MAX_WAIT);
    return calls.run(What.feed(budget, after, limit, nanos), until(), Api.FeedPage.class);
  }

  /**
   * Returns the pages of the feed without end. next waits for a page with entries, and throws final
   * errors, or the last one if the thread is interrupted.
   */
  public Iterator<Api.FeedPage> follow(String budget, String after, int limit, Duration wait) {
    return new Feed(calls, budget, after, limit, Durations.nanos(wait));
  }

  Until until() {
    return timeout == 0 ? Until.EVER : new Until(calls.clock.now() + timeout, false);
  }

  Api.Settlement confirm(String budget, Api.ConfirmRequest request, Until until) {
    return calls.run(What.settle("confirm", budget, request.requestId(), request.group(), request),
        until, Api.Settlement.class);
  }

  Api.Settlement rollback(String budget, Api.RollbackRequest request, Until until) {
    What what =
        What.settle("rollback", budget, request.requestId(), request.group(), request);
    return calls.run(what, until, Api.Settlement.class);
  }

  /** The settings of a client. */
  public static final class Settings {
    private final List<String> addresses;
    private String tenant = "";
    private Supplier<String> key = () -> "";
    private Retry retry = Retry.STANDARD;
    private long cancelWithin;
    private SSLContext tls;
    private Transport transport;
    private Clock clock = Clock.REAL;

    private Settings(String servers) {
      addresses = Arrays.stream(servers.split(",", -1)).map(String::strip).map(Calls::base).toList();
    }

    /** Sets the tenant of the budgets. */
    public Settings tenant(String name) {
      tenant = name;
      return this;
    }

    /** Sets the API key. */
    public Settings key(String token) {
      return key(() -> token);
    }

    /** Sets what returns the API key before each attempt. */
    public Settings key(Supplier<String> token) {
      key = token;
      return this;
    }

    /** Sets the bounds of repeats. */
    public Settings retry(Retry bounds) {
      retry = bounds;
      return this;
    }

    /** Grants the time in which a deduct whose outcome stays unknown is cancelled. */
    public Settings cancelWithin(Duration time) {
      cancelWithin = Durations.nanos(time);
      return this;
    }

    /** Sets what https trusts and shows; see Tls. */
    public Settings tls(SSLContext context) {
      tls = context;
      return this;
    }

    Settings simulated(Transport script, Clock time) {
      transport = script;
      clock = time;
      return this;
    }

    /** Makes the client. */
    public Client build() {
      Transport used = transport == null ? new Http(tls) : transport;
      return new Client(
          new Calls(addresses, tenant, key, retry, cancelWithin, used, clock), 0);
    }
  }
}
