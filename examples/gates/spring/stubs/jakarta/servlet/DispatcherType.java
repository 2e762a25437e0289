package jakarta.servlet;

/** What the gate uses of Jakarta Servlet. */
public enum DispatcherType {
  FORWARD, INCLUDE, REQUEST, ASYNC, ERROR
}
