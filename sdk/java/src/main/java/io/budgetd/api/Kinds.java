// The kinds of the error codes, generated from openapi.yaml by internal/sdktypes.
package io.budgetd.api;

import java.util.Map;

/** The kind of each error code. */
public final class Kinds {
  public static final Map<String, String> OF = Map.ofEntries(
      Map.entry("malformed", "faulty"),
      Map.entry("invalid", "faulty"),
      Map.entry("too_large", "faulty"),
      Map.entry("unsupported_media_type", "faulty"),
      Map.entry("method_not_allowed", "faulty"),
      Map.entry("route_not_found", "faulty"),
      Map.entry("budget_not_found", "faulty"),
      Map.entry("deduction_not_found", "faulty"),
      Map.entry("bucket_not_found", "faulty"),
      Map.entry("instance_not_found", "faulty"),
      Map.entry("key_not_found", "faulty"),
      Map.entry("unauthenticated", "faulty"),
      Map.entry("forbidden", "faulty"),
      Map.entry("budget_exhausted", "refused"),
      Map.entry("period_exhausted", "refused"),
      Map.entry("budget_not_effective", "refused"),
      Map.entry("budget_paused", "refused"),
      Map.entry("budget_expired", "refused"),
      Map.entry("leg_refused", "refused"),
      Map.entry("limit_exceeded", "refused"),
      Map.entry("budget_not_over", "refused"),
      Map.entry("has_deductions", "refused"),
      Map.entry("in_use", "refused"),
      Map.entry("last_bucket", "refused"),
      Map.entry("bucket_offline", "refused"),
      Map.entry("bucket_halted", "refused"),
      Map.entry("instance_answers", "refused"),
      Map.entry("last_instance", "refused"),
      Map.entry("amount_exceeds_remaining", "refused"),
      Map.entry("ledger_mode_only", "refused"),
      Map.entry("request_conflict", "conflict"),
      Map.entry("request_void", "conflict"),
      Map.entry("already_rolled_back", "conflict"),
      Map.entry("not_held", "conflict"),
      Map.entry("hold_expired", "conflict"),
      Map.entry("group_closed", "conflict"),
      Map.entry("step_conflict", "conflict"),
      Map.entry("name_taken", "conflict"),
      Map.entry("version_conflict", "conflict"),
      Map.entry("too_many_keys", "conflict"),
      Map.entry("key_not_live", "conflict"),
      Map.entry("webhook_not_found", "faulty"),
      Map.entry("delivery_not_found", "faulty"),
      Map.entry("too_many_webhooks", "conflict"),
      Map.entry("rate_limited", "not_now"),
      Map.entry("unavailable", "not_now"),
      Map.entry("outcome_unknown", "unknown"),
      Map.entry("internal", "unknown"));

  private Kinds() {}
}
