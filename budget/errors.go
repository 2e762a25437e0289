package budget

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Code is the stable name of an error in the API.
type Code string

// The codes. Code.Kind says what each one means for the caller.
const (
	Malformed            Code = "malformed"
	Invalid              Code = "invalid"
	TooLarge             Code = "too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	MethodNotAllowed     Code = "method_not_allowed"

	BudgetNotFound    Code = "budget_not_found"
	DeductionNotFound Code = "deduction_not_found"
	BucketNotFound    Code = "bucket_not_found"
	InstanceNotFound  Code = "instance_not_found"
	RouteNotFound     Code = "route_not_found"

	BudgetExhausted    Code = "budget_exhausted"
	PeriodExhausted    Code = "period_exhausted"
	BudgetNotEffective Code = "budget_not_effective"
	BudgetPaused       Code = "budget_paused"
	BudgetExpired      Code = "budget_expired"
	LastBucket         Code = "last_bucket"
	// BudgetNotOver means that the budget has not ended, or has open holds, so it is not archived.
	BudgetNotOver Code = "budget_not_over"
	// HasDeductions means that the budget has or had deductions, so it is not deleted. InUse means
	// that its buckets are in use, so it is not deleted yet.
	HasDeductions Code = "has_deductions"
	InUse         Code = "in_use"
	// BucketOffline means that the bucket is offline, so it cannot apply for units.
	BucketOffline Code = "bucket_offline"
	LastInstance  Code = "last_instance"
	// BucketHalted means that the bucket stays halted, because its figures still disagree.
	// InstanceAnswers means that the instance answers, so it is not given up.
	BucketHalted    Code = "bucket_halted"
	InstanceAnswers Code = "instance_answers"

	RequestConflict        Code = "request_conflict"
	RequestVoid            Code = "request_void"
	AlreadyRolledBack      Code = "already_rolled_back"
	AmountExceedsRemaining Code = "amount_exceeds_remaining"
	NameTaken              Code = "name_taken"
	VersionConflict        Code = "version_conflict"

	// LegRefused means that legs of a set refuse it, each for the reason in Error.Refusals.
	LegRefused Code = "leg_refused"
	// LimitExceeded means that the deduction would exceed a limit, which is in Error.Limit.
	LimitExceeded Code = "limit_exceeded"

	// NotHeld means that the deduction is not a hold, or no longer one. HoldExpired means that the
	// hold expired before it was confirmed. GroupClosed means that the group of holds was confirmed
	// or rolled back, and accepts no other hold. StepConflict means that a renewal of a hold is not
	// the one that follows the last.
	NotHeld      Code = "not_held"
	HoldExpired  Code = "hold_expired"
	GroupClosed  Code = "group_closed"
	StepConflict Code = "step_conflict"

	// LedgerModeOnly means that the call needs ledger rows, which a budget in store mode does not
	// have.
	LedgerModeOnly Code = "ledger_mode_only"

	// Unauthenticated means that the caller is unknown. Forbidden means that the caller's role is
	// too low, or the call is outside the caller's scope.
	Unauthenticated Code = "unauthenticated"
	Forbidden       Code = "forbidden"
	// RateLimited means that the API key makes too many requests. This one was not executed, and no
	// budget refused it.
	RateLimited Code = "rate_limited"
	// KeyNotFound means that the caller's scope has no API key with that id. TooManyKeys means that
	// the principal has as many live keys as it may have. KeyNotLive means that the key is revoked
	// or expired.
	KeyNotFound Code = "key_not_found"
	TooManyKeys Code = "too_many_keys"
	KeyNotLive  Code = "key_not_live"

	// WebhookNotFound means that the caller's scope has no endpoint with that id. DeliveryNotFound
	// means that the endpoint has no such message. TooManyWebhooks means that the tenant has as
	// many endpoints as it may have.
	WebhookNotFound  Code = "webhook_not_found"
	DeliveryNotFound Code = "delivery_not_found"
	TooManyWebhooks  Code = "too_many_webhooks"

	Unavailable    Code = "unavailable"
	OutcomeUnknown Code = "outcome_unknown"
	Internal       Code = "internal"
)

// Kind says what an error means for the caller. The kinds never overlap.
type Kind uint8

// The kinds.
const (
	// Faulty means that the request itself is wrong; repeating it unchanged cannot help.
	Faulty Kind = iota + 1
	// Refused means that the request was understood and denied; nothing was changed.
	Refused
	// Conflict means that the request contradicts the ledger; nothing was changed.
	Conflict
	// NotDone means that the attempt is known not to have happened; repeat it later.
	NotDone
	// MayBeDone means that the attempt may have happened; repeat it with the same request id.
	MayBeDone
)

// String returns the name of a kind: "faulty", "refused", "conflict", "not done" or "may be done".
func (k Kind) String() string {
	switch k {
	case Faulty:
		return "faulty"
	case Refused:
		return "refused"
	case Conflict:
		return "conflict"
	case NotDone:
		return "not done"
	case MayBeDone:
		return "may be done"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Kind returns what the code means for the caller. An unlisted code is MayBeDone, the kind that
// promises least.
func (c Code) Kind() Kind {
	switch c {
	case Malformed, Invalid, TooLarge, UnsupportedMediaType, MethodNotAllowed,
		BudgetNotFound, DeductionNotFound, BucketNotFound, InstanceNotFound, RouteNotFound,
		Unauthenticated, Forbidden, KeyNotFound, WebhookNotFound, DeliveryNotFound:
		return Faulty
	case BudgetExhausted, PeriodExhausted, BudgetNotEffective, BudgetPaused, BudgetExpired,
		BudgetNotOver, HasDeductions, InUse, LastBucket, LastInstance,
		BucketOffline, BucketHalted, InstanceAnswers, AmountExceedsRemaining, LimitExceeded,
		LegRefused, LedgerModeOnly:
		return Refused
	case RequestConflict, RequestVoid, AlreadyRolledBack, NameTaken, VersionConflict,
		NotHeld, HoldExpired, GroupClosed, StepConflict, TooManyKeys, KeyNotLive, TooManyWebhooks:
		return Conflict
	case Unavailable, RateLimited:
		return NotDone
	default:
		return MayBeDone
	}
}

// Reason says why a request could not be executed.
type Reason string

// The reasons.
const (
	// ReasonOverloaded means that too many requests are waiting.
	ReasonOverloaded Reason = "overloaded"
	// ReasonCollecting means that there are units, but they could not be collected in time.
	ReasonCollecting Reason = "collecting"
	// ReasonDatabaseDown means that the database does not answer.
	ReasonDatabaseDown Reason = "database_down"
	// ReasonStoreDown means that the store does not answer.
	ReasonStoreDown Reason = "store_down"
	// ReasonOffline means that no bucket of the budget is online.
	ReasonOffline Reason = "offline"
	// ReasonUnknownZone means that the zone data of this version lack a time zone of the budget.
	ReasonUnknownZone Reason = "unknown_zone"
)

// FieldError names a faulty field of a request and says what it must be.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// LegRefusal is why a leg of a set refuses it.
type LegRefusal struct {
	// Budget is the name of the leg's budget.
	Budget string
	Reason *Error
}

// Error is the one error type that crosses package borders. errors.Is compares codes, so
// `errors.Is(err, &budget.Error{Code: budget.Unavailable})` and Is(err, budget.Unavailable) agree.
type Error struct {
	Code Code
	// Op is the operation that failed: "deduct", "apply", …
	Op string
	// Message says what is wrong, where, and what to do next.
	Message string
	// Fields lists every faulty field, for Malformed and Invalid.
	Fields []FieldError
	// Available is what the budget can still cover, in minor units, for BudgetExhausted and
	// AmountExceedsRemaining; nil otherwise.
	Available *int64
	// Limit is the exceeded limit that resets last, for LimitExceeded; nil otherwise. Limits holds
	// all exceeded limits.
	Limit  *LimitState
	Limits []LimitState
	// Refusals are those of the legs of a set, in their order, for LegRefused.
	Refusals []LegRefusal
	// State is the state of the deduction, for AlreadyRolledBack: "rolled_back" or "expired".
	State string
	// Never means that the request cannot be accepted under the present definition, however often
	// it is repeated. RetryAfter is then 0.
	Never bool
	// StartAt is when the budget becomes effective, for BudgetNotEffective; zero otherwise.
	StartAt time.Time
	// Reason says why something is Unavailable; "" if the reason is unknown.
	Reason Reason
	// RetryAfter is the time after which to repeat the request; 0 means no advice.
	RetryAfter time.Duration
	// Err is the cause; it is logged and never shown to callers.
	Err error
}

func (e *Error) Error() string {
	text := string(e.Code)
	if e.Op != "" {
		text = e.Op + ": " + text
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	for _, f := range e.Fields {
		text += fmt.Sprintf("; %s: %s", f.Field, f.Message)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Is reports whether err is or wraps an *Error with that code.
func Is(err error, code Code) bool { return CodeOf(err) == code }

// CodeOf returns the code of the first *Error in err's chain. It returns Internal for an error
// without one, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}

// Refuse returns an *Error with that code and a formatted message.
func Refuse(code Code, op, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Message: fmt.Sprintf(format, args...)}
}
