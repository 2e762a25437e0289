package io.budgetd;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.ByteBuffer;
import java.nio.channels.UnresolvedAddressException;
import java.security.cert.CertificateException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;

/** Sends requests over java.net.http. It is safe for concurrent use and uses no proxy. */
final class Http implements Transport {
  private static final Duration DIAL_TIMEOUT = Duration.ofSeconds(3);
  private static final int MAX_ANSWER = 32 << 20;

  private final HttpClient client;

  Http(SSLContext tls) {
    HttpClient.Builder builder = HttpClient.newBuilder()
        .version(HttpClient.Version.HTTP_1_1)
        .followRedirects(HttpClient.Redirect.NEVER)
        .proxy(HttpClient.Builder.NO_PROXY)
        .connectTimeout(DIAL_TIMEOUT);
    client = (tls == null ? builder : builder.sslContext(tls)).build();
  }

  @Override
  public Answer send(Send send) throws NoAnswer {
    if (!send.deaf() && Thread.currentThread().isInterrupted()) {
      throw new NoAnswer("interrupted", false);
    }
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(send.address() + send.target()))
        .method(send.method(), send.body() == null ? HttpRequest.BodyPublishers.noBody()
            : HttpRequest.BodyPublishers.ofByteArray(send.body()));
    send.headers().forEach(request::header);
    CompletableFuture<HttpResponse<byte[]>> coming =
        client.sendAsync(request.build(), head -> new Bounded());
    try {
      HttpResponse<byte[]> response = awaited(coming, send.timeout(), send.deaf());
      Map<String, String> headers = new HashMap<>();
      response.headers().map().forEach(
          (name, values) -> headers.put(name.toLowerCase(Locale.ROOT), values.get(0)));
      return new Answer(response.statusCode(), headers, response.body());
    } catch (TimeoutException e) {
      throw new NoAnswer("timed out", true);
    } catch (InterruptedException e) {
      throw new NoAnswer("interrupted", true);
    } catch (ExecutionException e) {
      throw new NoAnswer(String.valueOf(e.getCause()), !unsent(e.getCause()));
    } finally {
      coming.cancel(true);
    }
  }

  /** Waits for an answer. An interrupt stays noted in the thread. */
  private static <T> T awaited(CompletableFuture<T> coming, long nanos, boolean deaf)
      throws ExecutionException, InterruptedException, TimeoutException {
    long end = System.nanoTime() + nanos;
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return coming.get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
          interrupted = true;
          if (!deaf) {
            throw e;
          }
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Returns whether a failure shows that no byte of the request left. */
  private static boolean unsent(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      if (cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException
          || cause instanceof UnresolvedAddressException || cause instanceof CertificateException) {
        return true;
      }
    }
    return false;
  }

  /** Collects a body up to the longest one. */
  private static final class Bounded implements BodySubscriber<byte[]> {
    private final BodySubscriber<byte[]> all = BodySubscribers.ofByteArray();
    private Flow.Subscription subscription;
    private long length;

    @Override
    public CompletionStage<byte[]> getBody() {
      return all.getBody();
    }

    @Override
    public void onSubscribe(Flow.Subscription to) {
      subscription = to;
      all.onSubscribe(to);
    }

    @Override
    public void onNext(List<ByteBuffer> parts) {
      length += parts.stream().mapToLong(ByteBuffer::remaining).sum();
      if (length > MAX_ANSWER) {
        subscription.cancel();
        all.onError(new IOException("the answer is longer than " + MAX_ANSWER + " bytes"));
      } else {
        all.onNext(parts);
      }
    }

    @Override
    public void onError(Throwable failure) {
      all.onError(failure);
    }

    @Override
    public void onComplete() {
      all.onComplete();
    }
  }
}
