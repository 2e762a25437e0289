import io.budgetd.BudgetdException;
import io.budgetd.Client;
import io.budgetd.api.Api.CancelRequest;
import io.budgetd.api.Api.DeductRequest;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Makes the calls of `budgetctl drill --caller`: a call per line of stdin, its result on stdout.
 *
 *     budgetctl drill --short --caller 'java -cp budgetd-VERSION.jar sdk/java/examples/Caller.java'
 *
 * Java has no JSON. The texts of a drill need no escapes, so patterns read them.
 */
final class Caller {
  public static void main(String[] args) throws IOException {
    Client client = new Client(System.getenv("BUDGETD_URL"));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(result(client, line));
    }
  }

  private static String result(Client client, String line) {
    String budget = member(line, "budget", "\"([^\"]*)\"");
    String id = member(line, "request_id", "\"([^\"]*)\"");
    String key = member(line, "key", "\"([^\"]*)\"");
    try {
      if (line.contains("\"op\":\"cancel\"")) {
        var answer = client.cancel(budget, CancelRequest.of(id).withKey(key));
        return answer(id, answer.state(), answer.amount());
      }
      long amount = Long.parseLong(member(line, "amount", "(\\d+)"));
      var answer = client.deduct(budget, DeductRequest.of(id, amount).withKey(key));
      return answer(id, answer.state(), answer.amount());
    } catch (BudgetdException e) {
      return "{\"error\": {\"kind\": \"" + e.kind() + "\", \"code\": \"" + e.code()
          + "\", \"cancelled\": " + e.cancelled() + ", \"message\": \""
          + e.getMessage().replaceAll("[\"\\\\\\p{Cntrl}]", "'") + "\"}}";
    }
  }

  private static String answer(String id, String state, long amount) {
    return "{\"answer\": {\"request_id\": \"" + id + "\", \"state\": \"" + state
        + "\", \"amount\": " + amount + "}}";
  }

  private static String member(String line, String name, String pattern) {
    Matcher found = Pattern.compile("\"" + name + "\":" + pattern).matcher(line);
    if (!found.find()) {
      throw new IllegalArgumentException("no " + name + " in " + line);
    }
    return found.group(1);
  }
}
