package jakarta.servlet.http;

import jakarta.servlet.DispatcherType;

/** What the gate uses of Jakarta Servlet. */
public interface HttpServletRequest {
  DispatcherType getDispatcherType();

  Object getAttribute(String name);

  void setAttribute(String name, Object value);

  void removeAttribute(String name);
}
