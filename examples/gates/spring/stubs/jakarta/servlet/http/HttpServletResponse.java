package jakarta.servlet.http;

import java.io.IOException;

/** What the gate uses of Jakarta Servlet. */
public interface HttpServletResponse {
  void setHeader(String name, String value);

  void sendError(int status, String message) throws IOException;

  int getStatus();
}
