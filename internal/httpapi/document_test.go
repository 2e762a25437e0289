package httpapi

import (
	"math"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// TestDocumentsAreAsTheLibraryWritesThem checks that the documents that encode themselves give the
// same bytes as the library, and fail for the same values.
func TestDocumentsAreAsTheLibraryWritesThem(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,20}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{"", `"`, `\`, "\x00", "\x1f", "\x7f", "\u2028", "<&>", "ü", "\U0001F600", "\xff", "\n\t"}))
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, -1, budget.MaxAmount, math.MinInt64, math.MaxInt64}))
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		second := rapid.OneOf(rapid.Int64Range(-70_000_000_000, 260_000_000_000), rapid.Just[int64](0)).Draw(t, "second")
		at := time.Unix(second, rapid.OneOf(rapid.Int64Range(0, 999_999_999), rapid.Just[int64](0)).Draw(t, "ns"))
		return rapid.SampledFrom([]time.Time{{}, at, at.UTC(), at.In(time.FixedZone("", 3600))}).Draw(t, "time")
	})
	limit := rapid.Custom(func(t *rapid.T) budget.LimitState {
		return budget.LimitState{Limit: text.Draw(t, "limit"), Dimension: text.Draw(t, "dimension"), Value: text.Draw(t, "value"),
			Used: number.Draw(t, "used"), Max: number.Draw(t, "max"), Exempt: rapid.Bool().Draw(t, "exempt"),
			ResetAt: instant.Draw(t, "reset")}
	})
	field := rapid.Custom(func(t *rapid.T) budget.FieldError {
		return budget.FieldError{Field: text.Draw(t, "field"), Message: text.Draw(t, "wrong")}
	})
	clocked := &API{sqlNow: time.Now}
	rapid.Check(t, func(t *rapid.T) {
		seen := foreseenOf(&bucket.CheckAnswer{Amount: number.Draw(t, "amount"), BudgetRemaining: number.Draw(t, "remaining"),
			PeriodRemaining: rapid.Ptr(number, true).Draw(t, "period"), Unlimited: rapid.Bool().Draw(t, "unlimited"),
			Limits: rapid.SliceOfN(limit, 0, 3).Draw(t, "limits")})
		seen.RequestID, seen.Replayed = text.Draw(t, "id"), rapid.Bool().Draw(t, "replayed")
		compare(t, seen)
		var results []any
		for range rapid.IntRange(0, 4).Draw(t, "results") {
			if rapid.IntRange(0, 3).Draw(t, "problem") == 0 {
				p := ProblemOf(&budget.Error{Code: rapid.SampledFrom([]budget.Code{budget.Invalid, budget.LimitExceeded,
					budget.Unavailable, budget.BudgetExhausted}).Draw(t, "code"), Message: text.Draw(t, "message"),
					Fields:    rapid.SliceOfN(field, 0, 2).Draw(t, "fields"),
					Available: rapid.Ptr(number, true).Draw(t, "available"),
					Limit:     rapid.Ptr(limit, true).Draw(t, "limit"),
					Limits:    rapid.SliceOfN(limit, 0, 2).Draw(t, "limits"),
					State:     text.Draw(t, "state"),
					Never:     rapid.Bool().Draw(t, "never"), StartAt: instant.Draw(t, "start"),
					Reason:     budget.Reason(text.Draw(t, "reason")),
					RetryAfter: time.Duration(rapid.Int64Range(-1e9, 1e15).Draw(t, "retry after"))})
				p.Budget, p.RequestID = text.Draw(t, "budget"), text.Draw(t, "request id")
				p.CorrelationID = text.Draw(t, "correlation")
				p.Reasons = rapid.SliceOfN(text, 0, 2).Draw(t, "reasons")
				compare(t, p)
				results = append(results, p)
				continue
			}
			got := bucket.DeductAnswer{RequestID: text.Draw(t, "id"), Amount: number.Draw(t, "amount"),
				State: ledger.State(text.Draw(t, "state")), Bucket: text.Draw(t, "bucket"),
				BucketRemaining: number.Draw(t, "remaining"), BudgetRemaining: number.Draw(t, "budget remaining"),
				RemainingUnknown: rapid.Bool().Draw(t, "bucket unknown"), FiguresUnknown: rapid.Bool().Draw(t, "unknown"),
				PeriodRemaining: rapid.Ptr(number, true).Draw(t, "period remaining"), Unlimited: rapid.Bool().Draw(t, "unlimited"),
				HoldUntil: instant.Draw(t, "hold"), Limits: rapid.SliceOfN(limit, 0, 3).Draw(t, "limits"),
				Receipt: text.Draw(t, "receipt"), Replayed: rapid.Bool().Draw(t, "replayed")}
			for _, name := range rapid.SliceOfN(text, 0, 2).Draw(t, "charged") {
				got.Legs = append(got.Legs, bucket.DeductAnswer{Budget: name, Amount: got.Amount})
			}
			one := clocked.acceptedOf(&got, 0)
			one.ExpiresIn = nil
			if rapid.Bool().Draw(t, "expires") {
				seconds := float64(rapid.Int64Range(0, 366*86_400_000).Draw(t, "expires in")) / 1000
				one.ExpiresIn = &seconds
			}
			compare(t, &one)
			results = append(results, &one)
		}
		compare(t, batchAnswer{results})
	})
}

func compare(t *rapid.T, body any) {
	want, err := json.Marshal(body)
	var d document
	d.Value(body)
	if (d.Err == nil) != (err == nil) {
		t.Fatalf("the error is %v, that of the library %v", d.Err, err)
	}
	if err == nil && string(d.Text) != string(want) {
		t.Fatalf("got  %s\nwant %s", d.Text, want)
	}
}
