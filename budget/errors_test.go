package budget_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"strconv"
	"testing"

	"github.com/budgetd/budgetd/budget"
)

// kinds lists every code and its kind.
var kinds = map[budget.Code]budget.Kind{
	budget.Malformed: budget.Faulty, budget.Invalid: budget.Faulty, budget.TooLarge: budget.Faulty,
	budget.UnsupportedMediaType: budget.Faulty, budget.MethodNotAllowed: budget.Faulty,
	budget.BudgetNotFound: budget.Faulty, budget.DeductionNotFound: budget.Faulty,
	budget.BucketNotFound: budget.Faulty, budget.InstanceNotFound: budget.Faulty,
	budget.RouteNotFound: budget.Faulty,

	budget.BudgetExhausted: budget.Refused, budget.PeriodExhausted: budget.Refused, budget.BudgetNotEffective: budget.Refused,
	budget.BudgetPaused: budget.Refused, budget.BudgetExpired: budget.Refused,
	budget.BudgetNotOver: budget.Refused, budget.HasDeductions: budget.Refused, budget.InUse: budget.Refused, budget.LastBucket: budget.Refused, budget.LastInstance: budget.Refused,
	budget.BucketOffline: budget.Refused, budget.LedgerModeOnly: budget.Refused,
	budget.AmountExceedsRemaining: budget.Refused, budget.LimitExceeded: budget.Refused, budget.LegRefused: budget.Refused,

	budget.RequestConflict: budget.Conflict, budget.RequestVoid: budget.Conflict,
	budget.AlreadyRolledBack: budget.Conflict, budget.NameTaken: budget.Conflict,
	budget.VersionConflict: budget.Conflict, budget.NotHeld: budget.Conflict,
	budget.HoldExpired: budget.Conflict, budget.GroupClosed: budget.Conflict, budget.StepConflict: budget.Conflict,

	budget.Unauthenticated: budget.Faulty, budget.Forbidden: budget.Faulty, budget.KeyNotFound: budget.Faulty,
	budget.WebhookNotFound: budget.Faulty, budget.DeliveryNotFound: budget.Faulty, budget.TooManyWebhooks: budget.Conflict,
	budget.TooManyKeys: budget.Conflict, budget.KeyNotLive: budget.Conflict, budget.RateLimited: budget.NotDone,

	budget.BucketHalted: budget.Refused, budget.InstanceAnswers: budget.Refused,
	budget.Unavailable:    budget.NotDone,
	budget.OutcomeUnknown: budget.MayBeDone,
	budget.Internal:       budget.MayBeDone,
}

func TestKindOfEveryCode(t *testing.T) {
	for code, want := range kinds {
		if got := code.Kind(); got != want {
			t.Errorf("%s is of kind %d, want %d", code, got, want)
		}
	}
	if got := budget.Code("one of a later version").Kind(); got != budget.MayBeDone {
		t.Errorf("an unknown code is of kind %d, which promises too much", got)
	}
}

// TestKindsHaveEveryCode reads the source, so that the table cannot miss a new code.
func TestKindsHaveEveryCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "Code" {
			return true
		}
		for i, name := range spec.Names {
			declared++
			text, err := strconv.Unquote(spec.Values[i].(*ast.BasicLit).Value)
			if _, found := kinds[budget.Code(text)]; err != nil || !found {
				t.Errorf("%s (%q) is not in the table", name.Name, text)
			}
		}
		return true
	})
	if declared != len(kinds) {
		t.Errorf("%d codes declared, %d in the table", declared, len(kinds))
	}
}

func TestErrorsIs(t *testing.T) {
	available := int64(3)
	refusal := &budget.Error{Code: budget.BudgetExhausted, Op: "deduct", Available: &available}
	cause := &budget.Error{Code: budget.Unavailable, Op: "commit", Err: io.ErrUnexpectedEOF}
	both := &budget.Error{Code: budget.OutcomeUnknown, Op: "deduct", Err: cause}
	for name, test := range map[string]struct {
		err  error
		code budget.Code
		is   []error
		not  []error
	}{
		"nothing": {nil, "", nil, []error{refusal}},
		"itself": {refusal, budget.BudgetExhausted,
			[]error{refusal, &budget.Error{Code: budget.BudgetExhausted}},
			[]error{&budget.Error{Code: budget.BudgetExpired}, io.EOF}},
		"wrapped": {fmt.Errorf("deduct 7: %w", refusal), budget.BudgetExhausted,
			[]error{&budget.Error{Code: budget.BudgetExhausted}}, []error{&budget.Error{}}},
		"with a cause": {cause, budget.Unavailable, []error{io.ErrUnexpectedEOF}, []error{io.EOF}},
		"the outer code counts": {both, budget.OutcomeUnknown,
			[]error{&budget.Error{Code: budget.OutcomeUnknown}, &budget.Error{Code: budget.Unavailable},
				io.ErrUnexpectedEOF}, []error{&budget.Error{Code: budget.Internal}}},
		"joined": {errors.Join(io.EOF, refusal), budget.BudgetExhausted,
			[]error{refusal, io.EOF}, nil},
		"none of ours": {io.EOF, budget.Internal, []error{io.EOF},
			[]error{&budget.Error{Code: budget.Internal}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := budget.CodeOf(test.err); got != test.code {
				t.Errorf("code %q, want %q", got, test.code)
			}
			for code := range kinds {
				if got := budget.Is(test.err, code); got != (code == test.code) {
					t.Errorf("Is(%q) is %v", code, got)
				}
			}
			for _, target := range test.is {
				if !errors.Is(test.err, target) {
					t.Errorf("errors.Is does not find %v", target)
				}
			}
			for _, target := range test.not {
				if errors.Is(test.err, target) {
					t.Errorf("errors.Is finds %v", target)
				}
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	for want, err := range map[string]*budget.Error{
		"budget_exhausted":         {Code: budget.BudgetExhausted},
		"deduct: budget_exhausted": {Code: budget.BudgetExhausted, Op: "deduct"},
		"deduct: budget_paused: budget sale is paused by an operator": budget.Refuse(budget.BudgetPaused,
			"deduct", "budget %s is paused by an operator", "sale"),
		"create: invalid: 2 faults; name: is missing; unit: is unknown": {
			Code: budget.Invalid, Op: "create", Message: "2 faults",
			Fields: []budget.FieldError{
				{Field: "name", Message: "is missing"}, {Field: "unit", Message: "is unknown"},
			},
		},
		"commit: unavailable: EOF": {Code: budget.Unavailable, Op: "commit", Err: io.EOF},
	} {
		if got := err.Error(); got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	}
}
