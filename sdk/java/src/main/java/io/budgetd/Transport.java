package io.budgetd;

import java.util.Map;

/** Sends a request once and returns its answer. */
interface Transport {
  Answer send(Send send) throws NoAnswer;

  /** One attempt. It takes at most timeout nanoseconds; an interrupt ends it unless it is deaf. */
  record Send(String address, String method, String target, Map<String, String> headers,
      byte[] body, long timeout, boolean deaf) {}

  /** An answer of HTTP. The names of headers are in lower case. */
  record Answer(int status, Map<String, String> headers, byte[] body) {}

  /** No usable answer arrived. sent is false if the request certainly did not leave. */
  final class NoAnswer extends Exception {
    private static final long serialVersionUID = 1;

    final boolean sent;

    NoAnswer(String message, boolean sent) {
      super(message);
      this.sent = sent;
    }
  }
}
