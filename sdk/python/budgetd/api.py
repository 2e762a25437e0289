"""The types of the API, generated from openapi.yaml by internal/sdktypes."""

from typing import Any, Literal, NotRequired, TypedDict, Union

Name = str
RequestID = str
Key256 = str
RoutedBy = str
Amount = int
Units = int
UnitsOrNone = Union[int, None]
Number = int
Instant = str
Duration = str
ExpiresIn = float
Dimensions = dict[str, "Key256"]
Counts = dict[str, "Units"]
Empty = dict[str, Any]
BudgetType = Literal["promo", "daily"]
BudgetStatus = Literal["pending", "effective", "paused", "expired"]
Unit = Literal["count", "amount"]
Durability = Literal["ledger", "store"]
LateRefund = Literal["total", "next", "forfeit"]
OnLoss = Literal["quarantine", "assume_unused"]
AlsoCharges = list["Name"]
Serving = Literal["full", "partly", "period_exhausted", "budget_exhausted", "store_down", "pending", "paused", "expired"]
SignedQuantity = int
Above = Literal["refuse", "available"]
ExpiresAs = Literal["released", "used"]
Extra = "Units"
Uncollected = "Units"
Late = bool
OverLimit = bool
SetAmounts = dict[str, "Amount"]
DeductionState = Literal["used", "rolled_back", "held", "expired", "void"]
Outcome = Literal["accepted", "would_be_accepted"]
SignedNumber = int
Home = Union[str, "HomeObject"]
Role = Literal["read", "deduct", "rollback", "operator", "admin", "delegate"]
Patterns = list[str]
Subtree = str
MessageType = Literal["alert.firing", "alert.resolved", "endpoint.disabled"]
ErrorCode = Literal["malformed", "invalid", "too_large", "unsupported_media_type", "method_not_allowed", "route_not_found", "budget_not_found", "deduction_not_found", "bucket_not_found", "instance_not_found", "key_not_found", "unauthenticated", "forbidden", "budget_exhausted", "period_exhausted", "budget_not_effective", "budget_paused", "budget_expired", "leg_refused", "limit_exceeded", "budget_not_over", "has_deductions", "in_use", "last_bucket", "bucket_offline", "bucket_halted", "instance_answers", "last_instance", "amount_exceeds_remaining", "ledger_mode_only", "request_conflict", "request_void", "already_rolled_back", "not_held", "hold_expired", "group_closed", "step_conflict", "name_taken", "version_conflict", "too_many_keys", "key_not_live", "webhook_not_found", "delivery_not_found", "too_many_webhooks", "rate_limited", "unavailable", "outcome_unknown", "internal"]
Reason = Literal["overloaded", "collecting", "database_down", "store_down", "offline", "unknown_zone"]


class Anchor(TypedDict):
    day: NotRequired[int]
    weekday: NotRequired[Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]]
    hour: NotRequired[int]


class TypeRule(TypedDict):
    kind: Literal["free", "calendar", "windows"]
    every: NotRequired[Literal["hour", "day", "week", "month"]]
    anchor: NotRequired["Anchor"]
    quantity: NotRequired["Amount"]
    unused: NotRequired[Literal["spread", "next", "forfeit"]]
    max_rollover: NotRequired["Amount"]
    partial: NotRequired[Literal["prorated", "whole"]]
    windows: NotRequired[list["DayWindow"]]


DayWindow = TypedDict(
    "DayWindow",
    {
        "from": str,
        "to": str,
        "quantity": "Amount",
    },
)


class Limit(TypedDict):
    name: "Name"
    dimension: str
    optional: NotRequired[bool]
    window: "LimitWindow"
    max: "Units"
    measure: NotRequired[Literal["count", "amount"]]
    enforce: NotRequired[bool]
    overrides: NotRequired[list["Override"]]
    override_count: NotRequired[int]


class LimitWindow(TypedDict):
    kind: Literal["calendar", "sliding", "first_hit", "lifetime"]
    every: NotRequired[Literal["second", "minute", "hour", "day", "week", "month", "year"]]
    anchor: NotRequired["Anchor"]
    timezone: NotRequired[str]
    length: NotRequired["Duration"]
    slot: NotRequired["Duration"]


class Override(TypedDict):
    value: NotRequired["Key256"]
    values: NotRequired[list["Key256"]]
    max: NotRequired["Units"]
    exempt: NotRequired[bool]


class OverrideChange(TypedDict):
    value: NotRequired["Key256"]
    values: NotRequired[list["Key256"]]
    max: NotRequired["Units"]
    exempt: NotRequired[bool]
    overrides: NotRequired[list["Override"]]


class OverridePage(TypedDict):
    overrides: list["Override"]
    override_count: int
    next_page_token: NotRequired[str]


class BudgetDefinition(TypedDict):
    name: "Name"
    tenant: NotRequired["Name"]
    gl_code: NotRequired["RequestID"]
    unit: "Unit"
    durability: NotRequired["Durability"]
    type: NotRequired["BudgetType"]
    type_rule: NotRequired["TypeRule"]
    total_quantity: NotRequired["Amount"]
    parent: NotRequired["Name"]
    at_least: NotRequired["Amount"]
    ttl: NotRequired["Duration"]
    also_charges: NotRequired["AlsoCharges"]
    unlimited: NotRequired[bool]
    bucket_quantity: NotRequired[int]
    sharding_quantity: NotRequired["Units"]
    adjust_cnt: NotRequired[int]
    start_at: NotRequired["Instant"]
    end_at: NotRequired["Instant"]
    allow_past: NotRequired[bool]
    timezone: NotRequired[str]
    routing_dimension: NotRequired["Key256"]
    late_refund: NotRequired["LateRefund"]
    on_loss: NotRequired["OnLoss"]
    limits: NotRequired[list["Limit"]]
    dry_run: NotRequired[bool]
    status: NotRequired[Literal["paused", "effective"]]


class BudgetChange(TypedDict):
    status: NotRequired[Literal["paused", "effective"]]
    name: NotRequired["Name"]
    gl_code: NotRequired[str]
    unit: NotRequired["Unit"]
    start_at: NotRequired[Union[str, None]]
    archived: NotRequired[bool]
    end_at: NotRequired[Union[str, None]]
    allow_past: NotRequired[bool]
    type_rule: NotRequired["TypeRule"]
    timezone: NotRequired[str]
    also_charges: NotRequired["AlsoCharges"]
    late_refund: NotRequired["LateRefund"]
    bucket_quantity: NotRequired[int]
    sharding_quantity: NotRequired["Units"]
    adjust_cnt: NotRequired[int]
    limits: NotRequired[list["Limit"]]


class Budget(TypedDict):
    id: "Number"
    tenant: "Name"
    name: "Name"
    gl_code: NotRequired["RequestID"]
    unit: "Unit"
    durability: "Durability"
    type: "BudgetType"
    parent: NotRequired["Name"]
    also_charges: NotRequired["AlsoCharges"]
    type_rule: NotRequired["TypeRule"]
    timezone: NotRequired[str]
    late_refund: NotRequired["LateRefund"]
    on_loss: NotRequired["OnLoss"]
    bucket_quantity: int
    sharding_quantity: NotRequired["Units"]
    adjust_cnt: NotRequired["Number"]
    routing_dimension: NotRequired["Key256"]
    unlimited: NotRequired[bool]
    start_at: NotRequired["Instant"]
    end_at: NotRequired["Instant"]
    effective_at: NotRequired["Instant"]
    next_reset_at: NotRequired["Instant"]
    created_at: NotRequired["Instant"]
    updated_at: NotRequired["Instant"]
    status: "BudgetStatus"
    archived: NotRequired[bool]
    version: "Number"
    total_quantity: "UnitsOrNone"
    out_quantity: "UnitsOrNone"
    undistributed: "UnitsOrNone"
    not_funded: "UnitsOrNone"
    pending_shrink: NotRequired["Units"]
    remaining: "UnitsOrNone"
    opens_at: NotRequired["Instant"]
    in_buckets: "UnitsOrNone"
    held: "Units"
    used: "Units"
    in_transit: "Units"
    quarantined: "Units"
    forfeited: "Units"
    usable: NotRequired["Units"]
    allocated: NotRequired["Units"]
    serving: "Serving"
    out_of_reach: "UnitsOrNone"
    until: NotRequired["Instant"]
    calls: NotRequired["Calls"]
    period: NotRequired["Period"]
    periods: NotRequired[list["PlannedPeriod"]]
    buckets: "BucketCount"
    limits: list["Limit"]
    exhausted_at: NotRequired["Instant"]
    refusals: NotRequired["Number"]


class Period(TypedDict):
    number: "Number"
    start: NotRequired["Instant"]
    end: NotRequired["Instant"]
    total: "Units"
    used: "Units"


class PlannedPeriod(TypedDict):
    number: "Number"
    start: NotRequired["Instant"]
    end: NotRequired["Instant"]
    quantity: "Units"


class BucketCount(TypedDict):
    online: "Number"
    offline: "Number"
    unreachable: NotRequired["Number"]
    stores: NotRequired[list[str]]
    unreachable_units: NotRequired["Units"]


class Calls(TypedDict):
    accepted: "Number"
    refused: "Number"
    unserved: "Number"


class HoldList(TypedDict):
    holds: list["OpenHold"]


class OpenHold(TypedDict):
    request_id: "RequestID"
    group: NotRequired["RequestID"]
    amount: "Units"
    bucket: "Key256"
    held_at: "Instant"
    hold_until: "Instant"
    expires_in: "ExpiresIn"


class RemainingList(TypedDict):
    budgets: dict[str, "Gauge"]


class Gauge(TypedDict):
    remaining: "UnitsOrNone"
    serving: "Serving"
    as_of: "Instant"


class RefusalList(TypedDict):
    refusals: list["Refusal"]


class Refusal(TypedDict):
    at: "Instant"
    tenant: str
    budget: str
    request_id: str
    amount: "Units"
    key: NotRequired[str]
    dimensions: NotRequired["Dimensions"]
    hold: NotRequired[bool]
    reference: NotRequired[str]
    routing_key: NotRequired[str]
    bucket: NotRequired[str]
    home: NotRequired["Home"]
    problem: "Problem"


class BudgetPage(TypedDict):
    total: NotRequired["Number"]
    tenants: NotRequired[dict[str, "Number"]]
    ranked_at: NotRequired["Instant"]
    budgets: list["Budget"]
    next_page_token: NotRequired[str]


class Bulk(TypedDict):
    request_id: "RequestID"
    filter: dict[str, Any]
    expected: int
    reason: NotRequired[Any]
    action: Literal["pause", "resume", "append", "thresholds"]
    quantity: NotRequired[Any]
    thresholds: NotRequired[list["Threshold"]]


class BulkAnswer(TypedDict):
    request_id: str
    done: int
    unchanged: int
    failed: int
    left: int
    rows: list[dict[str, Any]]


class Adjustment(TypedDict):
    request_id: "RequestID"
    quantity: "SignedQuantity"


class AdjustedBudget(TypedDict):
    id: "Number"
    tenant: "Name"
    name: "Name"
    gl_code: NotRequired["RequestID"]
    unit: "Unit"
    durability: "Durability"
    type: "BudgetType"
    parent: NotRequired["Name"]
    also_charges: NotRequired["AlsoCharges"]
    type_rule: NotRequired["TypeRule"]
    timezone: NotRequired[str]
    late_refund: NotRequired["LateRefund"]
    on_loss: NotRequired["OnLoss"]
    bucket_quantity: int
    sharding_quantity: NotRequired["Units"]
    adjust_cnt: NotRequired["Number"]
    routing_dimension: NotRequired["Key256"]
    unlimited: NotRequired[bool]
    start_at: NotRequired["Instant"]
    end_at: NotRequired["Instant"]
    effective_at: NotRequired["Instant"]
    next_reset_at: NotRequired["Instant"]
    created_at: NotRequired["Instant"]
    updated_at: NotRequired["Instant"]
    status: "BudgetStatus"
    archived: NotRequired[bool]
    version: "Number"
    total_quantity: "UnitsOrNone"
    out_quantity: "UnitsOrNone"
    undistributed: "UnitsOrNone"
    not_funded: "UnitsOrNone"
    pending_shrink: NotRequired["Units"]
    remaining: "UnitsOrNone"
    opens_at: NotRequired["Instant"]
    in_buckets: "UnitsOrNone"
    held: "Units"
    used: "Units"
    in_transit: "Units"
    quarantined: "Units"
    forfeited: "Units"
    usable: NotRequired["Units"]
    allocated: NotRequired["Units"]
    serving: "Serving"
    out_of_reach: "UnitsOrNone"
    until: NotRequired["Instant"]
    calls: NotRequired["Calls"]
    period: NotRequired["Period"]
    periods: NotRequired[list["PlannedPeriod"]]
    buckets: "BucketCount"
    limits: list["Limit"]
    exhausted_at: NotRequired["Instant"]
    refusals: NotRequired["Number"]
    request_id: "RequestID"
    quantity: "SignedQuantity"
    state: Literal["pending", "done", "refused"]
    replayed: bool


class DeductRequest(TypedDict):
    request_id: "RequestID"
    amount: "Amount"
    key: NotRequired["Key256"]
    dimensions: NotRequired["Dimensions"]
    counts: NotRequired["Counts"]
    hold_ttl: NotRequired["Duration"]
    group: NotRequired["RequestID"]
    above: NotRequired["Above"]
    expires_as: NotRequired["ExpiresAs"]
    reference: NotRequired["Key256"]
    dry_run: NotRequired[bool]


class SetRequest(TypedDict):
    request_id: "RequestID"
    legs: list["SetLeg"]
    reference: NotRequired["Key256"]
    hold_ttl: NotRequired["Duration"]
    expires_as: NotRequired["ExpiresAs"]
    dry_run: NotRequired[bool]


SetLeg = TypedDict(
    "SetLeg",
    {
        "budget": NotRequired[str],
        "from": NotRequired[list[str]],
        "split": NotRequired[bool],
        "amount": "Amount",
        "key": NotRequired["Key256"],
        "dimensions": NotRequired["Dimensions"],
        "counts": NotRequired["Counts"],
    },
)


class SetAnswer(TypedDict):
    request_id: "RequestID"
    outcome: "Outcome"
    state: NotRequired["DeductionState"]
    hold_until: NotRequired["Instant"]
    expires_in: NotRequired["ExpiresIn"]
    replayed: bool
    legs: list["SetLegAnswer"]


class ChargedLeg(TypedDict):
    budget: "Name"
    amount: "Amount"


class SetLegAnswer(TypedDict):
    budget: "Name"
    amount: "Amount"
    bucket: NotRequired["Key256"]
    budget_remaining: "UnitsOrNone"
    period_remaining: NotRequired["Units"]
    unlimited: NotRequired[bool]
    charged: NotRequired[bool]
    parts: NotRequired[list["SourcePart"]]
    limits: list["LimitState"]


class SourcePart(TypedDict):
    budget: "Name"
    amount: "Amount"
    limits: NotRequired[list["LimitState"]]


class SetRollback(TypedDict):
    request_id: "RequestID"
    rollback_id: NotRequired["RequestID"]
    amounts: NotRequired["SetAmounts"]


class SetConfirm(TypedDict):
    request_id: "RequestID"
    amounts: NotRequired["SetAmounts"]


class SetCancel(TypedDict):
    request_id: "RequestID"


class SetExtend(TypedDict):
    request_id: "RequestID"
    hold_ttl: "Duration"
    expires_as: NotRequired["ExpiresAs"]


class Set(TypedDict):
    request_id: "RequestID"
    state: "DeductionState"
    hold_until: NotRequired["Instant"]
    expires_in: NotRequired["ExpiresIn"]
    expires_as: NotRequired["ExpiresAs"]
    reference: NotRequired["Key256"]
    counted_at: NotRequired["Instant"]
    replayed: bool
    legs: list["SetPart"]


class SetPart(TypedDict):
    budget: "Name"
    state: "DeductionState"
    amount: "Amount"
    rolled_back: "Units"
    confirmed: NotRequired["Units"]
    bucket: NotRequired["Key256"]
    dimensions: NotRequired["Dimensions"]
    parts: NotRequired[list["SetPart"]]


class LegRefusal(TypedDict):
    budget: "Name"
    code: "ErrorCode"
    detail: NotRequired[str]
    available: NotRequired["Units"]
    limit: NotRequired["Name"]
    limits: NotRequired[list["LimitState"]]
    never: NotRequired[bool]
    start_at: NotRequired["Instant"]
    retry_after: NotRequired[float]


class BatchItem(TypedDict):
    budget: str
    request_id: "RequestID"
    amount: "Amount"
    key: NotRequired["Key256"]
    dimensions: NotRequired["Dimensions"]
    counts: NotRequired["Counts"]
    hold_ttl: NotRequired["Duration"]
    group: NotRequired["RequestID"]
    above: NotRequired["Above"]
    expires_as: NotRequired["ExpiresAs"]
    reference: NotRequired["Key256"]
    dry_run: NotRequired[bool]


class BatchRequest(TypedDict):
    deductions: list["BatchItem"]


class DeductAnswer(TypedDict):
    request_id: NotRequired["RequestID"]
    outcome: "Outcome"
    amount: "Amount"
    state: NotRequired["DeductionState"]
    bucket: NotRequired["Key256"]
    bucket_remaining: NotRequired["UnitsOrNone"]
    budget_remaining: "UnitsOrNone"
    period_remaining: NotRequired["Units"]
    unlimited: NotRequired[bool]
    hold_until: NotRequired["Instant"]
    expires_in: NotRequired["ExpiresIn"]
    limits: list["LimitState"]
    receipt: NotRequired["Key256"]
    legs: NotRequired[list["ChargedLeg"]]
    replayed: NotRequired[bool]


class LimitState(TypedDict):
    name: "Name"
    dimension: str
    value: str
    used: "Units"
    max: NotRequired["Units"]
    exempt: NotRequired[bool]
    asked: NotRequired["Units"]
    reset_at: NotRequired["Instant"]


class BatchAnswer(TypedDict):
    results: list["DeductResult"]


class DeductResult(TypedDict):
    request_id: NotRequired["RequestID"]
    outcome: NotRequired["Outcome"]
    amount: NotRequired["Amount"]
    state: NotRequired["DeductionState"]
    bucket: NotRequired["Key256"]
    bucket_remaining: NotRequired["UnitsOrNone"]
    budget_remaining: NotRequired["UnitsOrNone"]
    period_remaining: NotRequired["Units"]
    unlimited: NotRequired[bool]
    hold_until: NotRequired["Instant"]
    expires_in: NotRequired["ExpiresIn"]
    limits: NotRequired[list["LimitState"]]
    receipt: NotRequired["Key256"]
    legs: NotRequired[list["ChargedLeg"]]
    replayed: NotRequired[bool]
    type: NotRequired[str]
    title: NotRequired[str]
    status: NotRequired[int]
    detail: NotRequired[str]
    code: NotRequired["ErrorCode"]
    docs: NotRequired[str]
    budget: NotRequired[str]
    errors: NotRequired[list["FieldError"]]
    available: NotRequired["Units"]
    limit: NotRequired["Name"]
    dimension: NotRequired[str]
    value: NotRequired[str]
    used: NotRequired["Units"]
    max: NotRequired["Units"]
    reset_at: NotRequired["Instant"]
    never: NotRequired[bool]
    start_at: NotRequired["Instant"]
    reason: NotRequired["Reason"]
    retry_after: NotRequired[float]
    reasons: NotRequired[list[str]]
    correlation_id: NotRequired[str]


class CheckRequest(TypedDict):
    checks: list["CheckItem"]


class CheckItem(TypedDict):
    budget: str
    amount: "Amount"
    dimensions: NotRequired["Dimensions"]
    counts: NotRequired["Counts"]


class CheckAnswer(TypedDict):
    results: list["DeductResult"]


class RollbackRequest(TypedDict):
    request_id: NotRequired["RequestID"]
    group: NotRequired["RequestID"]
    amount: NotRequired["Amount"]
    rollback_id: NotRequired["RequestID"]
    key: NotRequired["RoutedBy"]
    dimensions: NotRequired["Dimensions"]
    receipt: NotRequired["Key256"]


class CancelRequest(TypedDict):
    request_id: "RequestID"
    key: NotRequired["RoutedBy"]
    dimensions: NotRequired["Dimensions"]
    receipt: NotRequired["Key256"]


class ConfirmRequest(TypedDict):
    request_id: NotRequired["RequestID"]
    group: NotRequired["RequestID"]
    amount: NotRequired["Amount"]
    receipt: NotRequired["Key256"]


class ExtendRequest(TypedDict):
    request_id: NotRequired["RequestID"]
    group: NotRequired["RequestID"]
    hold_ttl: "Duration"
    expires_as: NotRequired["ExpiresAs"]
    receipt: NotRequired["Key256"]


class RenewRequest(TypedDict):
    request_id: "RequestID"
    step: int
    used: "Units"
    hold: "Units"
    hold_ttl: "Duration"
    receipt: NotRequired["Key256"]


class Renewal(TypedDict):
    request_id: "RequestID"
    step: "Number"
    used_total: "Units"
    held: "Units"
    final: bool
    uncollected: "Units"
    over_limit: NotRequired["OverLimit"]
    hold_until: NotRequired["Instant"]
    expires_in: float
    replayed: bool


class Deduction(TypedDict):
    request_id: "RequestID"
    state: "DeductionState"
    amount: "Units"
    rolled_back: "Units"
    confirmed: NotRequired["Units"]
    above: NotRequired["Above"]
    expires_as: NotRequired["ExpiresAs"]
    extra: NotRequired["Extra"]
    uncollected: NotRequired["Uncollected"]
    over_limit: NotRequired["OverLimit"]
    late: NotRequired["Late"]
    hold_until: NotRequired["Instant"]
    expires_in: NotRequired["ExpiresIn"]
    group: NotRequired["RequestID"]
    bucket: NotRequired["Key256"]
    dimensions: NotRequired["Dimensions"]
    reference: NotRequired["Key256"]
    counted_at: NotRequired["Instant"]
    receipt: NotRequired["Key256"]
    replayed: bool


class Settlement(TypedDict):
    request_id: NotRequired["RequestID"]
    state: NotRequired["DeductionState"]
    amount: NotRequired["Units"]
    rolled_back: NotRequired["Units"]
    confirmed: NotRequired["Units"]
    above: NotRequired["Above"]
    expires_as: NotRequired["ExpiresAs"]
    extra: NotRequired["Extra"]
    uncollected: NotRequired["Uncollected"]
    over_limit: NotRequired["OverLimit"]
    late: NotRequired["Late"]
    hold_until: NotRequired["Instant"]
    expires_in: NotRequired["ExpiresIn"]
    group: NotRequired["RequestID"]
    bucket: NotRequired["Key256"]
    dimensions: NotRequired["Dimensions"]
    reference: NotRequired["Key256"]
    counted_at: NotRequired["Instant"]
    receipt: NotRequired["Key256"]
    replayed: NotRequired[bool]
    deductions: NotRequired[list["Deduction"]]


Usage = TypedDict(
    "Usage",
    {
        "dimensions": "Dimensions",
        "from": NotRequired["Instant"],
        "to": NotRequired["Instant"],
        "calls": "Number",
        "amount": "Units",
        "rolled_back": "Units",
    },
)


class Nearest(TypedDict):
    values: list["LimitState"]
    read: "Number"
    complete: bool


class FeedPage(TypedDict):
    entries: list["FeedEntry"]
    next: str


class FeedEntry(TypedDict):
    kind: Literal["deduct", "rollback", "confirm", "expire", "extra", "release", "renew"]
    bucket: "Key256"
    entry: "Number"
    request_id: "RequestID"
    rollback_id: NotRequired["RequestID"]
    cancelled: NotRequired[bool]
    of_group: NotRequired[bool]
    of_set: NotRequired[bool]
    number: NotRequired["Number"]
    amount: "Units"
    uncollected: NotRequired["Uncollected"]
    held: bool
    dimensions: NotRequired["Dimensions"]
    reference: NotRequired["Key256"]
    at: "Instant"


Series = TypedDict(
    "Series",
    {
        "from": "Instant",
        "to": "Instant",
        "step_s": "Number",
        "points": list["SeriesPoint"],
        "now": "SeriesPoint",
        "rate_per_s": float,
        "exhausted_at": Union[str, None],
        "projection": Literal["exhausted", "projected", "unlimited", "not_before_end", "not_for_years", "not_used", "not_known"],
    },
)


class SeriesPoint(TypedDict):
    at: "Instant"
    total: "UnitsOrNone"
    undistributed: "UnitsOrNone"
    not_funded: "UnitsOrNone"
    released: "UnitsOrNone"
    used: "Units"
    held: "Units"
    remaining: "UnitsOrNone"
    in_buckets: "UnitsOrNone"
    in_transit: "Units"
    stranded: "Units"
    quarantined: "Units"
    forfeited: "Units"


class AuditReport(TypedDict):
    ok: bool
    total: "UnitsOrNone"
    undistributed: "UnitsOrNone"
    not_funded: "UnitsOrNone"
    in_transit: "Units"
    in_buckets: "UnitsOrNone"
    held: "Units"
    used: "Units"
    quarantined: "Units"
    forfeited: "Units"
    with_children: NotRequired["Units"]
    at_risk: "Units"
    discrepancies: list["Discrepancy"]
    unchecked: NotRequired[list[str]]


class Discrepancy(TypedDict):
    bucket: NotRequired[str]
    epoch: NotRequired["Number"]
    what: str
    recorded: "SignedNumber"
    counted: "SignedNumber"


class Bucket(TypedDict):
    key: "Key256"
    ordinal: "Number"
    status: Literal["online", "offline"]
    offline_by: NotRequired[Literal["operator", "resize", "service"]]
    home: "Home"
    epoch: "Number"
    epoch_status: NotRequired[Literal["opening", "open", "closing", "closed", "lost"]]
    incarnation: NotRequired["Number"]
    remaining: "Units"
    out_quantity: "Units"
    out_cnt: "Number"
    collect_cnt: "Number"
    outstanding: "Units"
    held: "Units"
    used: "Units"
    returning: "Units"
    halted: NotRequired[str]
    problem: NotRequired[str]
    updated_at: NotRequired["Instant"]


class HomeObject(TypedDict):
    instance: str
    partition: "Number"


class BucketList(TypedDict):
    buckets: list["Bucket"]


class Recycle(TypedDict):
    run: "Number"
    cause: Literal["operator", "schedule", "automatic"]
    buckets: "Number"
    skipped: "Number"
    moved: "Units"
    units_before: "Units"
    stranded_before: "Units"
    units_after: "Units"
    stranded_after: "Units"
    began_at: "Instant"
    ended_at: "Instant"


class RecyclePage(TypedDict):
    recycles: list["Recycle"]
    next_page_token: NotRequired[str]


class QuarantineList(TypedDict):
    held: "Units"
    quarantines: list["Quarantine"]


class Quarantine(TypedDict):
    bucket: "Key256"
    epoch: "Number"
    quantity: "Units"
    released: "Units"
    held: "Units"
    cause: str
    at: "Instant"
    releases: list["Decision"]


class Decision(TypedDict):
    request_id: "RequestID"
    quantity: "Units"
    used: bool
    reason: str
    by: str
    at: "Instant"


class Release(TypedDict):
    request_id: "RequestID"
    quantity: NotRequired["Amount"]
    used: NotRequired[bool]
    reason: "Key256"
    by: NotRequired["RequestID"]


class Released(TypedDict):
    request_id: "RequestID"
    released: "Units"
    quarantined: "Units"
    replayed: bool


class Instance(TypedDict):
    name: str
    driver: NotRequired[str]
    health: Literal["up", "down"]
    draining: bool
    partitions: list["Partition"]


class NodeList(TypedDict):
    nodes: list["Node"]


class Node(TypedDict):
    name: str
    address: str
    state: Literal["up", "down"]
    version: str
    zone_release: str
    started_at: "Instant"
    seen_at: "Instant"


class InstanceList(TypedDict):
    instances: list["Instance"]


class Partition(TypedDict):
    partition: "Number"
    incarnation: "Number"
    reachable: bool
    buckets: NotRequired["Number"]
    problem: NotRequired[str]
    role: NotRequired[str]
    at_risk: NotRequired["Units"]
    began_at: NotRequired["Instant"]
    cause: NotRequired[str]


class Drain(TypedDict):
    instance: str
    draining: bool
    buckets_left: "Number"
    moved: "Number"
    keys_left: "Number"
    done: bool
    problem: NotRequired[str]
    quarantined: NotRequired["Units"]
    returned: NotRequired["Units"]


class RebalanceRequest(TypedDict):
    dry_run: NotRequired[bool]


class Rebalance(TypedDict):
    dry_run: bool
    budgets: "Number"
    misplaced: "Number"
    moved: "Number"
    moves: list["BucketMove"]
    problem: NotRequired[str]


BucketMove = TypedDict(
    "BucketMove",
    {
        "bucket": "Key256",
        "from": str,
        "to": str,
    },
)


class Identity(TypedDict):
    principal: str
    role: "Role"
    tenant: NotRequired["Name"]
    budgets: NotRequired["Patterns"]
    subtree: NotRequired["Subtree"]
    key_id: NotRequired[str]
    expires_at: NotRequired["Instant"]


class KeyRequest(TypedDict):
    principal: str
    role: "Role"
    tenant: NotRequired["Name"]
    budgets: NotRequired["Patterns"]
    subtree: NotRequired[str]
    expires_at: NotRequired["Instant"]


class Rotation(TypedDict):
    overlap: NotRequired[str]


class Key(TypedDict):
    id: str
    principal: str
    role: "Role"
    tenant: NotRequired["Name"]
    budgets: NotRequired["Patterns"]
    subtree: NotRequired["Subtree"]
    created_at: "Instant"
    created_by: str
    expires_at: NotRequired["Instant"]
    last_used_at: NotRequired["Instant"]
    revoked_at: NotRequired["Instant"]


class IssuedKey(TypedDict):
    id: str
    principal: str
    role: "Role"
    tenant: NotRequired["Name"]
    budgets: NotRequired["Patterns"]
    subtree: NotRequired["Subtree"]
    created_at: "Instant"
    created_by: str
    expires_at: NotRequired["Instant"]
    last_used_at: NotRequired["Instant"]
    revoked_at: NotRequired["Instant"]
    token: str


class KeyPage(TypedDict):
    keys: list["Key"]
    next_page_token: NotRequired[str]


class Threshold(TypedDict):
    kind: Literal["used_share", "exhausted", "projected", "stranded_share", "quarantine"]
    of: NotRequired[Literal["total", "period", "limit"]]
    percent: NotRequired[int]
    limit: NotRequired[str]
    value: NotRequired["Key256"]


class Thresholds(TypedDict):
    thresholds: list["Threshold"]
    own: bool


class ThresholdsChange(TypedDict):
    thresholds: Union[list["Threshold"], None]


class Alert(TypedDict):
    id: int
    state: Literal["firing", "resolved"]
    tenant: "Name"
    budget: "Name"
    threshold: str
    period: NotRequired[int]
    episode: int
    told_by: NotRequired[int]
    total: int
    spent: int
    left: int
    fired_at: "Instant"
    resolved_at: NotRequired["Instant"]
    reason: NotRequired[Literal["budget_ended", "threshold_removed", "rolled_over", "total_raised", "recovered"]]


class AlertPage(TypedDict):
    alerts: list["Alert"]
    next_page_token: NotRequired[str]


class WebhookRequest(TypedDict):
    tenant: NotRequired["Name"]
    url: str
    secret: "Name"
    types: NotRequired[list["MessageType"]]
    description: NotRequired[str]


class WebhookChange(TypedDict):
    url: NotRequired[str]
    secret: NotRequired["Name"]
    types: NotRequired[list["MessageType"]]
    description: NotRequired[str]
    enabled: NotRequired[bool]


class Webhook(TypedDict):
    id: str
    tenant: NotRequired["Name"]
    url: str
    secret: "Name"
    types: list["MessageType"]
    description: NotRequired[str]
    enabled: bool
    disabled: NotRequired[Literal["operator", "failing", "gone"]]
    failing_since: NotRequired["Instant"]
    created_at: "Instant"
    created_by: NotRequired[str]


class WebhookList(TypedDict):
    webhooks: list["Webhook"]


class Attempt(TypedDict):
    at: "Instant"
    status: NotRequired[int]
    error: NotRequired[str]
    took_ms: int


class Delivery(TypedDict):
    message: str
    type: Literal["alert.firing", "alert.resolved", "endpoint.disabled", "test"]
    state: Literal["pending", "delivered", "failed"]
    tries: int
    attempts: list["Attempt"]
    next_attempt_at: NotRequired["Instant"]
    created_at: "Instant"


class DeliveryPage(TypedDict):
    deliveries: list["Delivery"]
    next_page_token: NotRequired[str]


class AuditLogPage(TypedDict):
    entries: list["AuditEntry"]
    head: str
    removed: str


class AuditEntry(TypedDict):
    seq: "Number"
    at: "Instant"
    principal: str
    key_id: str
    source: str
    op: str
    tenant: str
    target: str
    request_id: str
    correlation_id: str
    before: Union[str, None]
    after: Union[str, None]
    outcome: str
    times: "Number"
    hash: str


class Health(TypedDict):
    status: Literal["up"]


class Readiness(TypedDict):
    ready: bool
    degraded: NotRequired[bool]
    reasons: list[str]


class Problem(TypedDict):
    type: str
    title: str
    status: int
    detail: NotRequired[str]
    code: "ErrorCode"
    docs: str
    budget: NotRequired[str]
    request_id: NotRequired[str]
    errors: NotRequired[list["FieldError"]]
    available: NotRequired["Units"]
    limit: NotRequired["Name"]
    dimension: NotRequired[str]
    value: NotRequired[str]
    used: NotRequired["Units"]
    max: NotRequired["Units"]
    reset_at: NotRequired["Instant"]
    state: NotRequired[Literal["rolled_back", "expired"]]
    limits: NotRequired[list["LimitState"]]
    refusals: NotRequired[list["LegRefusal"]]
    never: NotRequired[bool]
    start_at: NotRequired["Instant"]
    reason: NotRequired["Reason"]
    retry_after: NotRequired[float]
    reasons: NotRequired[list[str]]
    correlation_id: NotRequired[str]


class FieldError(TypedDict):
    field: str
    message: str


KINDS: dict[str, str] = {
    "malformed": "faulty",
    "invalid": "faulty",
    "too_large": "faulty",
    "unsupported_media_type": "faulty",
    "method_not_allowed": "faulty",
    "route_not_found": "faulty",
    "budget_not_found": "faulty",
    "deduction_not_found": "faulty",
    "bucket_not_found": "faulty",
    "instance_not_found": "faulty",
    "key_not_found": "faulty",
    "unauthenticated": "faulty",
    "forbidden": "faulty",
    "budget_exhausted": "refused",
    "period_exhausted": "refused",
    "budget_not_effective": "refused",
    "budget_paused": "refused",
    "budget_expired": "refused",
    "leg_refused": "refused",
    "limit_exceeded": "refused",
    "budget_not_over": "refused",
    "has_deductions": "refused",
    "in_use": "refused",
    "last_bucket": "refused",
    "bucket_offline": "refused",
    "bucket_halted": "refused",
    "instance_answers": "refused",
    "last_instance": "refused",
    "amount_exceeds_remaining": "refused",
    "ledger_mode_only": "refused",
    "request_conflict": "conflict",
    "request_void": "conflict",
    "already_rolled_back": "conflict",
    "not_held": "conflict",
    "hold_expired": "conflict",
    "group_closed": "conflict",
    "step_conflict": "conflict",
    "name_taken": "conflict",
    "version_conflict": "conflict",
    "too_many_keys": "conflict",
    "key_not_live": "conflict",
    "webhook_not_found": "faulty",
    "delivery_not_found": "faulty",
    "too_many_webhooks": "conflict",
    "rate_limited": "not_now",
    "unavailable": "not_now",
    "outcome_unknown": "unknown",
    "internal": "unknown",
}
