package org.springframework.web.servlet;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;

/** What the gate uses of Spring. */
public interface HandlerInterceptor {
  default boolean preHandle(HttpServletRequest request, HttpServletResponse response,
      Object handler) throws Exception {
    return true;
  }

  default void afterCompletion(HttpServletRequest request, HttpServletResponse response,
      Object handler, Exception failure) throws Exception {}
}
