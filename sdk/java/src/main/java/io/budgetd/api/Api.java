// The types of the API, generated from openapi.yaml by internal/sdktypes.
package io.budgetd.api;

import java.util.List;
import java.util.Map;

/**
 * The objects of the API as records. A component is the member of the same name in camel case; it
 * is null if the member is left out or null. Instants are texts.
 */
public final class Api {
  private Api() {}

  public record Anchor(
      Long day,
      String weekday,
      Long hour) {}

  public record TypeRule(
      String kind,
      String every,
      Anchor anchor,
      Long quantity,
      String unused,
      Long maxRollover,
      String partial,
      List<DayWindow> windows) {}

  public record DayWindow(
      String from,
      String to,
      long quantity) {}

  public record Limit(
      String name,
      String dimension,
      Boolean optional,
      LimitWindow window,
      long max,
      String measure,
      Boolean enforce,
      List<Override> overrides,
      Long overrideCount) {}

  public record LimitWindow(
      String kind,
      String every,
      Anchor anchor,
      String timezone,
      String length,
      String slot) {}

  public record Override(
      String value,
      List<String> values,
      Long max,
      Boolean exempt) {}

  public record OverrideChange(
      String value,
      List<String> values,
      Long max,
      Boolean exempt,
      List<Override> overrides) {}

  public record OverridePage(
      List<Override> overrides,
      long overrideCount,
      String nextPageToken) {}

  public record BudgetDefinition(
      String name,
      String tenant,
      String glCode,
      String unit,
      String durability,
      String type,
      TypeRule typeRule,
      Long totalQuantity,
      String parent,
      Long atLeast,
      String ttl,
      List<String> alsoCharges,
      Boolean unlimited,
      Long bucketQuantity,
      Long shardingQuantity,
      Long adjustCnt,
      String startAt,
      String endAt,
      Boolean allowPast,
      String timezone,
      String routingDimension,
      String lateRefund,
      String onLoss,
      List<Limit> limits,
      Boolean dryRun,
      String status) {}

  public record BudgetChange(
      String status,
      String name,
      String glCode,
      String unit,
      String startAt,
      Boolean archived,
      String endAt,
      Boolean allowPast,
      TypeRule typeRule,
      String timezone,
      List<String> alsoCharges,
      String lateRefund,
      Long bucketQuantity,
      Long shardingQuantity,
      Long adjustCnt,
      List<Limit> limits) {}

  public record Budget(
      long id,
      String tenant,
      String name,
      String glCode,
      String unit,
      String durability,
      String type,
      String parent,
      List<String> alsoCharges,
      TypeRule typeRule,
      String timezone,
      String lateRefund,
      String onLoss,
      long bucketQuantity,
      Long shardingQuantity,
      Long adjustCnt,
      String routingDimension,
      Boolean unlimited,
      String startAt,
      String endAt,
      String effectiveAt,
      String nextResetAt,
      String createdAt,
      String updatedAt,
      String status,
      Boolean archived,
      long version,
      Long totalQuantity,
      Long outQuantity,
      Long undistributed,
      Long notFunded,
      Long pendingShrink,
      Long remaining,
      String opensAt,
      Long inBuckets,
      long held,
      long used,
      long inTransit,
      long quarantined,
      long forfeited,
      Long usable,
      Long allocated,
      String serving,
      Long outOfReach,
      String until,
      Calls calls,
      Period period,
      List<PlannedPeriod> periods,
      BucketCount buckets,
      List<Limit> limits,
      String exhaustedAt,
      Long refusals) {}

  public record Period(
      long number,
      String start,
      String end,
      long total,
      long used) {}

  public record PlannedPeriod(
      long number,
      String start,
      String end,
      long quantity) {}

  public record BucketCount(
      long online,
      long offline,
      Long unreachable,
      List<String> stores,
      Long unreachableUnits) {}

  public record Calls(
      long accepted,
      long refused,
      long unserved) {}

  public record HoldList(
      List<OpenHold> holds) {}

  public record OpenHold(
      String requestId,
      String group,
      long amount,
      String bucket,
      String heldAt,
      String holdUntil,
      double expiresIn) {}

  public record RemainingList(
      Map<String, Gauge> budgets) {}

  public record Gauge(
      Long remaining,
      String serving,
      String asOf) {}

  public record RefusalList(
      List<Refusal> refusals) {}

  public record Refusal(
      String at,
      String tenant,
      String budget,
      String requestId,
      long amount,
      String key,
      Map<String, String> dimensions,
      Boolean hold,
      String reference,
      String routingKey,
      String bucket,
      Object home,
      Problem problem) {}

  public record BudgetPage(
      Long total,
      Map<String, Long> tenants,
      String rankedAt,
      List<Budget> budgets,
      String nextPageToken) {}

  public record Bulk(
      String requestId,
      Object filter,
      long expected,
      Object reason,
      String action,
      Object quantity,
      List<Threshold> thresholds) {}

  public record BulkAnswer(
      String requestId,
      long done,
      long unchanged,
      long failed,
      long left,
      List<Object> rows) {}

  public record Adjustment(
      String requestId,
      long quantity) {}

  public record AdjustedBudget(
      long id,
      String tenant,
      String name,
      String glCode,
      String unit,
      String durability,
      String type,
      String parent,
      List<String> alsoCharges,
      TypeRule typeRule,
      String timezone,
      String lateRefund,
      String onLoss,
      long bucketQuantity,
      Long shardingQuantity,
      Long adjustCnt,
      String routingDimension,
      Boolean unlimited,
      String startAt,
      String endAt,
      String effectiveAt,
      String nextResetAt,
      String createdAt,
      String updatedAt,
      String status,
      Boolean archived,
      long version,
      Long totalQuantity,
      Long outQuantity,
      Long undistributed,
      Long notFunded,
      Long pendingShrink,
      Long remaining,
      String opensAt,
      Long inBuckets,
      long held,
      long used,
      long inTransit,
      long quarantined,
      long forfeited,
      Long usable,
      Long allocated,
      String serving,
      Long outOfReach,
      String until,
      Calls calls,
      Period period,
      List<PlannedPeriod> periods,
      BucketCount buckets,
      List<Limit> limits,
      String exhaustedAt,
      Long refusals,
      String requestId,
      long quantity,
      String state,
      boolean replayed) {}

  public record DeductRequest(
      String requestId,
      long amount,
      String key,
      Map<String, String> dimensions,
      Map<String, Long> counts,
      String holdTtl,
      String group,
      String above,
      String expiresAs,
      String reference,
      Boolean dryRun) {
    /** Makes one with what is required. */
    public static DeductRequest of(String requestId, long amount) {
      return new DeductRequest(
          requestId, amount, null, null, null, null, null, null, null, null, null);
    }

    /** Returns a copy with this {@code key}. */
    public DeductRequest withKey(String key) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code dimensions}. */
    public DeductRequest withDimensions(Map<String, String> dimensions) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code counts}. */
    public DeductRequest withCounts(Map<String, Long> counts) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code hold_ttl}. */
    public DeductRequest withHoldTtl(String holdTtl) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code group}. */
    public DeductRequest withGroup(String group) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code above}. */
    public DeductRequest withAbove(String above) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code expires_as}. */
    public DeductRequest withExpiresAs(String expiresAs) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code reference}. */
    public DeductRequest withReference(String reference) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code dry_run}. */
    public DeductRequest withDryRun(Boolean dryRun) {
      return new DeductRequest(
          requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }
  }

  public record SetRequest(
      String requestId,
      List<SetLeg> legs,
      String reference,
      String holdTtl,
      String expiresAs,
      Boolean dryRun) {
    /** Makes one with what is required. */
    public static SetRequest of(String requestId, List<SetLeg> legs) {
      return new SetRequest(
          requestId, legs, null, null, null, null);
    }

    /** Returns a copy with this {@code reference}. */
    public SetRequest withReference(String reference) {
      return new SetRequest(
          requestId, legs, reference, holdTtl, expiresAs, dryRun);
    }

    /** Returns a copy with this {@code hold_ttl}. */
    public SetRequest withHoldTtl(String holdTtl) {
      return new SetRequest(
          requestId, legs, reference, holdTtl, expiresAs, dryRun);
    }

    /** Returns a copy with this {@code expires_as}. */
    public SetRequest withExpiresAs(String expiresAs) {
      return new SetRequest(
          requestId, legs, reference, holdTtl, expiresAs, dryRun);
    }

    /** Returns a copy with this {@code dry_run}. */
    public SetRequest withDryRun(Boolean dryRun) {
      return new SetRequest(
          requestId, legs, reference, holdTtl, expiresAs, dryRun);
    }
  }

  public record SetLeg(
      String budget,
      List<String> from,
      Boolean split,
      long amount,
      String key,
      Map<String, String> dimensions,
      Map<String, Long> counts) {}

  public record SetAnswer(
      String requestId,
      String outcome,
      String state,
      String holdUntil,
      Double expiresIn,
      boolean replayed,
      List<SetLegAnswer> legs) {}

  public record ChargedLeg(
      String budget,
      long amount) {}

  public record SetLegAnswer(
      String budget,
      long amount,
      String bucket,
      Long budgetRemaining,
      Long periodRemaining,
      Boolean unlimited,
      Boolean charged,
      List<SourcePart> parts,
      List<LimitState> limits) {}

  public record SourcePart(
      String budget,
      long amount,
      List<LimitState> limits) {}

  public record SetRollback(
      String requestId,
      String rollbackId,
      Map<String, Long> amounts) {}

  public record SetConfirm(
      String requestId,
      Map<String, Long> amounts) {}

  public record SetCancel(
      String requestId) {}

  public record SetExtend(
      String requestId,
      String holdTtl,
      String expiresAs) {}

  public record Set(
      String requestId,
      String state,
      String holdUntil,
      Double expiresIn,
      String expiresAs,
      String reference,
      String countedAt,
      boolean replayed,
      List<SetPart> legs) {}

  public record SetPart(
      String budget,
      String state,
      long amount,
      long rolledBack,
      Long confirmed,
      String bucket,
      Map<String, String> dimensions,
      List<SetPart> parts) {}

  public record LegRefusal(
      String budget,
      String code,
      String detail,
      Long available,
      String limit,
      List<LimitState> limits,
      Boolean never,
      String startAt,
      Double retryAfter) {}

  public record BatchItem(
      String budget,
      String requestId,
      long amount,
      String key,
      Map<String, String> dimensions,
      Map<String, Long> counts,
      String holdTtl,
      String group,
      String above,
      String expiresAs,
      String reference,
      Boolean dryRun) {
    /** Makes one with what is required. */
    public static BatchItem of(String budget, String requestId, long amount) {
      return new BatchItem(
          budget, requestId, amount, null, null, null, null, null, null, null, null, null);
    }

    /** Returns a copy with this {@code key}. */
    public BatchItem withKey(String key) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code dimensions}. */
    public BatchItem withDimensions(Map<String, String> dimensions) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code counts}. */
    public BatchItem withCounts(Map<String, Long> counts) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code hold_ttl}. */
    public BatchItem withHoldTtl(String holdTtl) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code group}. */
    public BatchItem withGroup(String group) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code above}. */
    public BatchItem withAbove(String above) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code expires_as}. */
    public BatchItem withExpiresAs(String expiresAs) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code reference}. */
    public BatchItem withReference(String reference) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }

    /** Returns a copy with this {@code dry_run}. */
    public BatchItem withDryRun(Boolean dryRun) {
      return new BatchItem(
          budget, requestId, amount, key, dimensions, counts, holdTtl, group, above, expiresAs, reference, dryRun);
    }
  }

  public record BatchRequest(
      List<BatchItem> deductions) {
    /** Makes one with what is required. */
    public static BatchRequest of(List<BatchItem> deductions) {
      return new BatchRequest(
          deductions);
    }
  }

  public record DeductAnswer(
      String requestId,
      String outcome,
      long amount,
      String state,
      String bucket,
      Long bucketRemaining,
      Long budgetRemaining,
      Long periodRemaining,
      Boolean unlimited,
      String holdUntil,
      Double expiresIn,
      List<LimitState> limits,
      String receipt,
      List<ChargedLeg> legs,
      Boolean replayed) {}

  public record LimitState(
      String name,
      String dimension,
      String value,
      long used,
      Long max,
      Boolean exempt,
      Long asked,
      String resetAt) {}

  public record BatchAnswer(
      List<DeductResult> results) {}

  public record DeductResult(
      String requestId,
      String outcome,
      Long amount,
      String state,
      String bucket,
      Long bucketRemaining,
      Long budgetRemaining,
      Long periodRemaining,
      Boolean unlimited,
      String holdUntil,
      Double expiresIn,
      List<LimitState> limits,
      String receipt,
      List<ChargedLeg> legs,
      Boolean replayed,
      String type,
      String title,
      Long status,
      String detail,
      String code,
      String docs,
      String budget,
      List<FieldError> errors,
      Long available,
      String limit,
      String dimension,
      String value,
      Long used,
      Long max,
      String resetAt,
      Boolean never,
      String startAt,
      String reason,
      Double retryAfter,
      List<String> reasons,
      String correlationId) {}

  public record CheckRequest(
      List<CheckItem> checks) {
    /** Makes one with what is required. */
    public static CheckRequest of(List<CheckItem> checks) {
      return new CheckRequest(
          checks);
    }
  }

  public record CheckItem(
      String budget,
      long amount,
      Map<String, String> dimensions,
      Map<String, Long> counts) {
    /** Makes one with what is required. */
    public static CheckItem of(String budget, long amount) {
      return new CheckItem(
          budget, amount, null, null);
    }

    /** Returns a copy with this {@code dimensions}. */
    public CheckItem withDimensions(Map<String, String> dimensions) {
      return new CheckItem(
          budget, amount, dimensions, counts);
    }

    /** Returns a copy with this {@code counts}. */
    public CheckItem withCounts(Map<String, Long> counts) {
      return new CheckItem(
          budget, amount, dimensions, counts);
    }
  }

  public record CheckAnswer(
      List<DeductResult> results) {}

  public record RollbackRequest(
      String requestId,
      String group,
      Long amount,
      String rollbackId,
      String key,
      Map<String, String> dimensions,
      String receipt) {
    /** Makes one with what is required. */
    public static RollbackRequest of() {
      return new RollbackRequest(
          null, null, null, null, null, null, null);
    }

    /** Returns a copy with this {@code request_id}. */
    public RollbackRequest withRequestId(String requestId) {
      return new RollbackRequest(
          requestId, group, amount, rollbackId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code group}. */
    public RollbackRequest withGroup(String group) {
      return new RollbackRequest(
          requestId, group, amount, rollbackId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code amount}. */
    public RollbackRequest withAmount(Long amount) {
      return new RollbackRequest(
          requestId, group, amount, rollbackId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code rollback_id}. */
    public RollbackRequest withRollbackId(String rollbackId) {
      return new RollbackRequest(
          requestId, group, amount, rollbackId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code key}. */
    public RollbackRequest withKey(String key) {
      return new RollbackRequest(
          requestId, group, amount, rollbackId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code dimensions}. */
    public RollbackRequest withDimensions(Map<String, String> dimensions) {
      return new RollbackRequest(
          requestId, group, amount, rollbackId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code receipt}. */
    public RollbackRequest withReceipt(String receipt) {
      return new RollbackRequest(
          requestId, group, amount, rollbackId, key, dimensions, receipt);
    }
  }

  public record CancelRequest(
      String requestId,
      String key,
      Map<String, String> dimensions,
      String receipt) {
    /** Makes one with what is required. */
    public static CancelRequest of(String requestId) {
      return new CancelRequest(
          requestId, null, null, null);
    }

    /** Returns a copy with this {@code key}. */
    public CancelRequest withKey(String key) {
      return new CancelRequest(
          requestId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code dimensions}. */
    public CancelRequest withDimensions(Map<String, String> dimensions) {
      return new CancelRequest(
          requestId, key, dimensions, receipt);
    }

    /** Returns a copy with this {@code receipt}. */
    public CancelRequest withReceipt(String receipt) {
      return new CancelRequest(
          requestId, key, dimensions, receipt);
    }
  }

  public record ConfirmRequest(
      String requestId,
      String group,
      Long amount,
      String receipt) {
    /** Makes one with what is required. */
    public static ConfirmRequest of() {
      return new ConfirmRequest(
          null, null, null, null);
    }

    /** Returns a copy with this {@code request_id}. */
    public ConfirmRequest withRequestId(String requestId) {
      return new ConfirmRequest(
          requestId, group, amount, receipt);
    }

    /** Returns a copy with this {@code group}. */
    public ConfirmRequest withGroup(String group) {
      return new ConfirmRequest(
          requestId, group, amount, receipt);
    }

    /** Returns a copy with this {@code amount}. */
    public ConfirmRequest withAmount(Long amount) {
      return new ConfirmRequest(
          requestId, group, amount, receipt);
    }

    /** Returns a copy with this {@code receipt}. */
    public ConfirmRequest withReceipt(String receipt) {
      return new ConfirmRequest(
          requestId, group, amount, receipt);
    }
  }

  public record ExtendRequest(
      String requestId,
      String group,
      String holdTtl,
      String expiresAs,
      String receipt) {
    /** Makes one with what is required. */
    public static ExtendRequest of(String holdTtl) {
      return new ExtendRequest(
          null, null, holdTtl, null, null);
    }

    /** Returns a copy with this {@code request_id}. */
    public ExtendRequest withRequestId(String requestId) {
      return new ExtendRequest(
          requestId, group, holdTtl, expiresAs, receipt);
    }

    /** Returns a copy with this {@code group}. */
    public ExtendRequest withGroup(String group) {
      return new ExtendRequest(
          requestId, group, holdTtl, expiresAs, receipt);
    }

    /** Returns a copy with this {@code expires_as}. */
    public ExtendRequest withExpiresAs(String expiresAs) {
      return new ExtendRequest(
          requestId, group, holdTtl, expiresAs, receipt);
    }

    /** Returns a copy with this {@code receipt}. */
    public ExtendRequest withReceipt(String receipt) {
      return new ExtendRequest(
          requestId, group, holdTtl, expiresAs, receipt);
    }
  }

  public record RenewRequest(
      String requestId,
      long step,
      long used,
      long hold,
      String holdTtl,
      String receipt) {
    /** Makes one with what is required. */
    public static RenewRequest of(String requestId, long step, long used, long hold, String holdTtl) {
      return new RenewRequest(
          requestId, step, used, hold, holdTtl, null);
    }

    /** Returns a copy with this {@code receipt}. */
    public RenewRequest withReceipt(String receipt) {
      return new RenewRequest(
          requestId, step, used, hold, holdTtl, receipt);
    }
  }

  public record Renewal(
      String requestId,
      long step,
      long usedTotal,
      long held,
      boolean final_,
      long uncollected,
      Boolean overLimit,
      String holdUntil,
      double expiresIn,
      boolean replayed) {}

  public record Deduction(
      String requestId,
      String state,
      long amount,
      long rolledBack,
      Long confirmed,
      String above,
      String expiresAs,
      Long extra,
      Long uncollected,
      Boolean overLimit,
      Boolean late,
      String holdUntil,
      Double expiresIn,
      String group,
      String bucket,
      Map<String, String> dimensions,
      String reference,
      String countedAt,
      String receipt,
      boolean replayed) {}

  public record Settlement(
      String requestId,
      String state,
      Long amount,
      Long rolledBack,
      Long confirmed,
      String above,
      String expiresAs,
      Long extra,
      Long uncollected,
      Boolean overLimit,
      Boolean late,
      String holdUntil,
      Double expiresIn,
      String group,
      String bucket,
      Map<String, String> dimensions,
      String reference,
      String countedAt,
      String receipt,
      Boolean replayed,
      List<Deduction> deductions) {}

  public record Usage(
      Map<String, String> dimensions,
      String from,
      String to,
      long calls,
      long amount,
      long rolledBack) {}

  public record Nearest(
      List<LimitState> values,
      long read,
      boolean complete) {}

  public record FeedPage(
      List<FeedEntry> entries,
      String next) {}

  public record FeedEntry(
      String kind,
      String bucket,
      long entry,
      String requestId,
      String rollbackId,
      Boolean cancelled,
      Boolean ofGroup,
      Boolean ofSet,
      Long number,
      long amount,
      Long uncollected,
      boolean held,
      Map<String, String> dimensions,
      String reference,
      String at) {}

  public record Series(
      String from,
      String to,
      long stepS,
      List<SeriesPoint> points,
      SeriesPoint now,
      double ratePerS,
      String exhaustedAt,
      String projection) {}

  public record SeriesPoint(
      String at,
      Long total,
      Long undistributed,
      Long notFunded,
      Long released,
      long used,
      long held,
      Long remaining,
      Long inBuckets,
      long inTransit,
      long stranded,
      long quarantined,
      long forfeited) {}

  public record AuditReport(
      boolean ok,
      Long total,
      Long undistributed,
      Long notFunded,
      long inTransit,
      Long inBuckets,
      long held,
      long used,
      long quarantined,
      long forfeited,
      Long withChildren,
      long atRisk,
      List<Discrepancy> discrepancies,
      List<String> unchecked) {}

  public record Discrepancy(
      String bucket,
      Long epoch,
      String what,
      long recorded,
      long counted) {}

  public record Bucket(
      String key,
      long ordinal,
      String status,
      String offlineBy,
      Object home,
      long epoch,
      String epochStatus,
      Long incarnation,
      long remaining,
      long outQuantity,
      long outCnt,
      long collectCnt,
      long outstanding,
      long held,
      long used,
      long returning,
      String halted,
      String problem,
      String updatedAt) {}

  public record BucketList(
      List<Bucket> buckets) {}

  public record Recycle(
      long run,
      String cause,
      long buckets,
      long skipped,
      long moved,
      long unitsBefore,
      long strandedBefore,
      long unitsAfter,
      long strandedAfter,
      String beganAt,
      String endedAt) {}

  public record RecyclePage(
      List<Recycle> recycles,
      String nextPageToken) {}

  public record QuarantineList(
      long held,
      List<Quarantine> quarantines) {}

  public record Quarantine(
      String bucket,
      long epoch,
      long quantity,
      long released,
      long held,
      String cause,
      String at,
      List<Decision> releases) {}

  public record Decision(
      String requestId,
      long quantity,
      boolean used,
      String reason,
      String by,
      String at) {}

  public record Release(
      String requestId,
      Long quantity,
      Boolean used,
      String reason,
      String by) {}

  public record Released(
      String requestId,
      long released,
      long quarantined,
      boolean replayed) {}

  public record Instance(
      String name,
      String driver,
      String health,
      boolean draining,
      List<Partition> partitions) {}

  public record NodeList(
      List<Node> nodes) {}

  public record Node(
      String name,
      String address,
      String state,
      String version,
      String zoneRelease,
      String startedAt,
      String seenAt) {}

  public record InstanceList(
      List<Instance> instances) {}

  public record Partition(
      long partition,
      long incarnation,
      boolean reachable,
      Long buckets,
      String problem,
      String role,
      Long atRisk,
      String beganAt,
      String cause) {}

  public record Drain(
      String instance,
      boolean draining,
      long bucketsLeft,
      long moved,
      long keysLeft,
      boolean done,
      String problem,
      Long quarantined,
      Long returned) {}

  public record RebalanceRequest(
      Boolean dryRun) {
    /** Makes one with what is required. */
    public static RebalanceRequest of() {
      return new RebalanceRequest(
          null);
    }

    /** Returns a copy with this {@code dry_run}. */
    public RebalanceRequest withDryRun(Boolean dryRun) {
      return new RebalanceRequest(
          dryRun);
    }
  }

  public record Rebalance(
      boolean dryRun,
      long budgets,
      long misplaced,
      long moved,
      List<BucketMove> moves,
      String problem) {}

  public record BucketMove(
      String bucket,
      String from,
      String to) {}

  public record Identity(
      String principal,
      String role,
      String tenant,
      List<String> budgets,
      String subtree,
      String keyId,
      String expiresAt) {}

  public record KeyRequest(
      String principal,
      String role,
      String tenant,
      List<String> budgets,
      String subtree,
      String expiresAt) {
    /** Makes one with what is required. */
    public static KeyRequest of(String principal, String role) {
      return new KeyRequest(
          principal, role, null, null, null, null);
    }

    /** Returns a copy with this {@code tenant}. */
    public KeyRequest withTenant(String tenant) {
      return new KeyRequest(
          principal, role, tenant, budgets, subtree, expiresAt);
    }

    /** Returns a copy with this {@code budgets}. */
    public KeyRequest withBudgets(List<String> budgets) {
      return new KeyRequest(
          principal, role, tenant, budgets, subtree, expiresAt);
    }

    /** Returns a copy with this {@code subtree}. */
    public KeyRequest withSubtree(String subtree) {
      return new KeyRequest(
          principal, role, tenant, budgets, subtree, expiresAt);
    }

    /** Returns a copy with this {@code expires_at}. */
    public KeyRequest withExpiresAt(String expiresAt) {
      return new KeyRequest(
          principal, role, tenant, budgets, subtree, expiresAt);
    }
  }

  public record Rotation(
      String overlap) {}

  public record Key(
      String id,
      String principal,
      String role,
      String tenant,
      List<String> budgets,
      String subtree,
      String createdAt,
      String createdBy,
      String expiresAt,
      String lastUsedAt,
      String revokedAt) {}

  public record IssuedKey(
      String id,
      String principal,
      String role,
      String tenant,
      List<String> budgets,
      String subtree,
      String createdAt,
      String createdBy,
      String expiresAt,
      String lastUsedAt,
      String revokedAt,
      String token) {}

  public record KeyPage(
      List<Key> keys,
      String nextPageToken) {}

  public record Threshold(
      String kind,
      String of,
      Long percent,
      String limit,
      String value) {}

  public record Thresholds(
      List<Threshold> thresholds,
      boolean own) {}

  public record ThresholdsChange(
      List<Threshold> thresholds) {}

  public record Alert(
      long id,
      String state,
      String tenant,
      String budget,
      String threshold,
      Long period,
      long episode,
      Long toldBy,
      long total,
      long spent,
      long left,
      String firedAt,
      String resolvedAt,
      String reason) {}

  public record AlertPage(
      List<Alert> alerts,
      String nextPageToken) {}

  public record WebhookRequest(
      String tenant,
      String url,
      String secret,
      List<String> types,
      String description) {
    /** Makes one with what is required. */
    public static WebhookRequest of(String url, String secret) {
      return new WebhookRequest(
          null, url, secret, null, null);
    }

    /** Returns a copy with this {@code tenant}. */
    public WebhookRequest withTenant(String tenant) {
      return new WebhookRequest(
          tenant, url, secret, types, description);
    }

    /** Returns a copy with this {@code types}. */
    public WebhookRequest withTypes(List<String> types) {
      return new WebhookRequest(
          tenant, url, secret, types, description);
    }

    /** Returns a copy with this {@code description}. */
    public WebhookRequest withDescription(String description) {
      return new WebhookRequest(
          tenant, url, secret, types, description);
    }
  }

  public record WebhookChange(
      String url,
      String secret,
      List<String> types,
      String description,
      Boolean enabled) {}

  public record Webhook(
      String id,
      String tenant,
      String url,
      String secret,
      List<String> types,
      String description,
      boolean enabled,
      String disabled,
      String failingSince,
      String createdAt,
      String createdBy) {}

  public record WebhookList(
      List<Webhook> webhooks) {}

  public record Attempt(
      String at,
      Long status,
      String error,
      long tookMs) {}

  public record Delivery(
      String message,
      String type,
      String state,
      long tries,
      List<Attempt> attempts,
      String nextAttemptAt,
      String createdAt) {}

  public record DeliveryPage(
      List<Delivery> deliveries,
      String nextPageToken) {}

  public record AuditLogPage(
      List<AuditEntry> entries,
      String head,
      String removed) {}

  public record AuditEntry(
      long seq,
      String at,
      String principal,
      String keyId,
      String source,
      String op,
      String tenant,
      String target,
      String requestId,
      String correlationId,
      String before,
      String after,
      String outcome,
      long times,
      String hash) {}

  public record Health(
      String status) {}

  public record Readiness(
      boolean ready,
      Boolean degraded,
      List<String> reasons) {}

  public record Problem(
      String type,
      String title,
      long status,
      String detail,
      String code,
      String docs,
      String budget,
      String requestId,
      List<FieldError> errors,
      Long available,
      String limit,
      String dimension,
      String value,
      Long used,
      Long max,
      String resetAt,
      String state,
      List<LimitState> limits,
      List<LegRefusal> refusals,
      Boolean never,
      String startAt,
      String reason,
      Double retryAfter,
      List<String> reasons,
      String correlationId) {}

  public record FieldError(
      String field,
      String message) {}
}
