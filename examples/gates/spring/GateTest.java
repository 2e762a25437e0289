import io.budgetd.BudgetdException;
import io.budgetd.Client;
import io.budgetd.Retry;
import io.budgetd.api.Api.Deduction;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Runs the gate with requests that are not real, and a budgetd at BUDGETD_URL that is. */
final class GateTest {
  /** A request and its response. */
  private static final class Call implements HttpServletRequest, HttpServletResponse {
    DispatcherType type = DispatcherType.REQUEST;
    final Map<String, Object> attributes = new HashMap<>();
    final Map<String, String> headers = new HashMap<>();
    int status = 200;

    @Override public DispatcherType getDispatcherType() {
      return type;
    }

    @Override public Object getAttribute(String name) {
      return attributes.get(name);
    }

    @Override public void setAttribute(String name, Object value) {
      attributes.put(name, value);
    }

    @Override public void removeAttribute(String name) {
      attributes.remove(name);
    }

    @Override public void setHeader(String name, String value) {
      headers.put(name, value);
    }

    @Override public void sendError(int code, String message) {
      status = code;
    }

    @Override public int getStatus() {
      return status;
    }
  }

  private static final Client CLIENT = new Client(System.getenv("BUDGETD_URL"));
  private static final List<String> UNSETTLED = new ArrayList<>();
  private static int failures;

  private GateTest() {}

  public static void main(String[] args) throws Exception {
    check("a request that succeeds", settled(null, 200, null), "used 10");
    check("less than the estimate", settled(4L, 200, null), "used 4");
    check("more than the estimate", settled(13L, 200, null), "used 13");
    check("nothing used", settled(0L, 200, null), "rolled_back 0");
    check("a wrong request", settled(null, 404, null), "used 10");
    check("a handler that throws", settled(null, 200, new Exception()), "rolled_back 0");
    check("a status of failure", settled(null, 500, null), "rolled_back 0");
    check("a failure with known use", settled(3L, 500, null), "used 3");
    asynchronous();
    refused();
    away();
    if (failures > 0) {
      throw new AssertionError(failures + " checks failed");
    }
  }

  private static BudgetInterceptor gate(Client client, long estimate) {
    return new BudgetInterceptor(client, "sale", "1m", request -> estimate,
        request -> Map.of("user", "u1"), (id, why) -> UNSETTLED.add(id));
  }

  /** Runs a request to its end, and returns what is recorded of it. */
  private static String settled(Long used, int status, Exception failure) throws Exception {
    BudgetInterceptor gate = gate(CLIENT, 10);
    Call call = new Call();
    check("lets it through", gate.preHandle(call, call, null), true);
    String id = held(call);
    check("before the handler", CLIENT.find("sale", id).state(), "held");
    if (used != null) {
      call.setAttribute(BudgetInterceptor.USED, used);
    }
    call.status = status;
    gate.afterCompletion(call, call, null, failure);
    return recorded(id);
  }

  private static String recorded(String id) {
    Deduction found = CLIENT.find("sale", id);
    return found.state() + " " + (found.confirmed() == null ? 0 : found.confirmed());
  }

  private static String held(Call call) {
    return (String) call.attributes.get(BudgetInterceptor.class.getName() + ".held");
  }

  /** A request that goes on in another thread comes to the gate twice, and is held for once. */
  private static void asynchronous() throws Exception {
    BudgetInterceptor gate = gate(CLIENT, 10);
    Call call = new Call();
    gate.preHandle(call, call, null);
    String id = held(call);
    call.type = DispatcherType.ASYNC;
    check("the rest goes through", gate.preHandle(call, call, null), true);
    check("the hold is the same", held(call), id);
    gate.afterCompletion(call, call, null, null);
    gate.afterCompletion(call, call, null, new Exception()); // no second end
    check("asynchronous", recorded(id), "used 10");
  }

  private static void refused() throws Exception {
    Call call = new Call();
    check("closed", gate(CLIENT, 1_000_000).preHandle(call, call, null), false);
    check("status of a refusal", call.status, 429);
    gate(CLIENT, 1).afterCompletion(call, call, null, null); // settles nothing
    check("unsettled", UNSETTLED.size(), 0);
  }

  private static void away() throws Exception {
    Client away = Client.servers("http://127.0.0.1:1")
        .retry(Retry.attempts(1)).build();
    Call call = new Call();
    check("closed", gate(away, 10).preHandle(call, call, null), false);
    check("status without budgetd", call.status, 503);
    Call open = new Call();
    gate(CLIENT, 10).preHandle(open, open, null);
    String id = held(open);
    gate(away, 10).afterCompletion(open, open, null, null);
    check("unsettled", UNSETTLED, List.of(id));
  }

  private static void check(String what, Object got, Object want) {
    if (!got.equals(want)) {
      failures++;
      System.err.println(what + ": got " + got + ", want " + want);
    }
  }
}
