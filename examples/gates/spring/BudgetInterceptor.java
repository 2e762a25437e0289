import io.budgetd.BudgetdException;
import io.budgetd.Client;
import io.budgetd.NotNow;
import io.budgetd.Refused;
import io.budgetd.Unknown;
import io.budgetd.api.Api.ConfirmRequest;
import io.budgetd.api.Api.DeductRequest;
import io.budgetd.api.Api.RollbackRequest;
import jakarta.servlet.DispatcherType;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.ToLongFunction;
import org.springframework.web.servlet.HandlerInterceptor;

/**
 * A gate for the requests of a Spring application: the estimate of a request is held before its
 * handler runs, and settled when the request has ended. A request that succeeds costs what its
 * handler put into the attribute {@link #USED}, or the estimate; one that fails costs nothing. A hold
 * that nobody settles ends by itself.
 */
public final class BudgetInterceptor implements HandlerInterceptor {
  /** The attribute of a request into which a handler puts the units that it used, a Long. */
  public static final String USED = BudgetInterceptor.class.getName() + ".used";

  private static final String HELD = BudgetInterceptor.class.getName() + ".held";

  private final Client client;
  private final String budget;
  private final String ttl;
  private final ToLongFunction<HttpServletRequest> estimate;
  private final Function<HttpServletRequest, Map<String, String>> dimensions;
  private final BiConsumer<String, BudgetdException> unsettled;

  /**
   * Makes a gate. ttl, such as "1m", is longer than the longest request; dimensions are what limits
   * of the budget are about, such as the user; unsettled is told the id of a hold that could not be
   * settled, and why.
   */
  public BudgetInterceptor(Client client, String budget, String ttl,
      ToLongFunction<HttpServletRequest> estimate,
      Function<HttpServletRequest, Map<String, String>> dimensions,
      BiConsumer<String, BudgetdException> unsettled) {
    this.client = client;
    this.budget = budget;
    this.ttl = ttl;
    this.estimate = estimate;
    this.dimensions = dimensions;
    this.unsettled = unsettled;
  }

  @Override
  public boolean preHandle(HttpServletRequest request, HttpServletResponse response,
      Object handler) throws IOException {
    if (request.getDispatcherType() != DispatcherType.REQUEST) {
      return true; // the rest of a request, asynchronous or of an error page, which was held for
    }
    String id = Client.newRequestId();
    try {
      client.deduct(budget, DeductRequest.of(id, estimate.applyAsLong(request))
          .withDimensions(dimensions.apply(request)).withHoldTtl(ttl).withAbove("available"));
    } catch (Refused refusal) {
      long seconds = (refusal.retryAfter().toMillis() + 999) / 1000;
      if (seconds > 0) {
        response.setHeader("Retry-After", Long.toString(seconds));
      }
      response.sendError(429, "The budget does not allow this request: " + refusal.code());
      return false;
    } catch (NotNow | Unknown e) { // what may be held ends by itself
      response.sendError(503, "The budget cannot be asked. Try again later.");
      return false;
    }
    request.setAttribute(HELD, id);
    return true;
  }

  @Override
  public void afterCompletion(HttpServletRequest request, HttpServletResponse response,
      Object handler, Exception failure) {
    if (!(request.getAttribute(HELD) instanceof String id)) {
      return;
    }
    request.removeAttribute(HELD);
    Long used = request.getAttribute(USED) instanceof Long n ? n : null;
    boolean failed = failure != null || response.getStatus() >= 500;
    try {
      if (used == null ? failed : used == 0) {
        client.rollback(budget, RollbackRequest.of().withRequestId(id));
      } else {
        client.confirm(budget, ConfirmRequest.of().withRequestId(id).withAmount(used));
      }
    } catch (BudgetdException e) {
      unsettled.accept(id, e);
    }
  }
}
