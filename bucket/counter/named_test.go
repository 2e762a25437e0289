package counter_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestNamed checks that a rollback, a cancel and a lookup find a deduction by how it was routed,
// and that one that does not say so is refused and changes nothing: in another bucket it would
// find no deduction, and a cancel would answer "void" while the units stay used.
func TestNamed(t *testing.T) {
	type how = bucket.RollbackRequest
	user := map[string]string{"user": "ann"}
	none := map[string]string{}
	routed, plain := promo("sale", 1000, 4), promo("plain", 1000, 4)
	routed.RoutingDimension = "user"
	tests := []struct {
		name    string
		of      budget.Definition
		request bucket.DeductRequest
		named   []how
		unnamed []how
	}{
		{name: "by key", of: plain, request: bucket.DeductRequest{Key: "ann", Dimensions: user},
			named:   []how{{Key: "ann"}, {Key: "ann", Dimensions: user}},
			unnamed: []how{{}, {Dimensions: user}}},
		{name: "by id", of: plain, request: bucket.DeductRequest{Dimensions: user},
			named:   []how{{NoKey: true}, {NoKey: true, Dimensions: user}},
			unnamed: []how{{}, {Dimensions: user}}},
		{name: "by dimension", of: routed, request: bucket.DeductRequest{Dimensions: user},
			named:   []how{{Key: "ann"}, {Dimensions: user}, {NoKey: true, Dimensions: user}},
			unnamed: []how{{}, {NoKey: true}, {Dimensions: none}}},
		{name: "by dimension before key", of: routed,
			request: bucket.DeductRequest{Key: "other", Dimensions: user},
			named:   []how{{Key: "ann"}, {Key: "other", Dimensions: user}},
			unnamed: []how{{}, {NoKey: true}}},
		{name: "by key without the dimension", of: routed, request: bucket.DeductRequest{Key: "ann"},
			named:   []how{{Key: "ann"}, {Key: "ann", Dimensions: none}},
			unnamed: []how{{}, {NoKey: true}}},
		{name: "by id without the dimension", of: routed,
			named:   []how{{NoKey: true, Dimensions: none}},
			unnamed: []how{{}, {NoKey: true}, {Dimensions: none}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, 2, func(w *world) {
				b := w.create(test.of)
				// Several ids, because one might meet the right bucket by chance.
				for i := range 8 {
					w.named(b, test.request, name(i), test.named[i%len(test.named)], test.unnamed)
				}
				w.settled(b, books{T: 1000, O: 1000})
			})
		})
	}
}

// named makes a deduction, and takes it back by what names it after what does not was refused.
func (w *world) named(b *bucket.Budget, request bucket.DeductRequest, id string,
	by bucket.RollbackRequest, unnamed []bucket.RollbackRequest) {
	w.Helper()
	request.Budget, request.RequestID, request.Amount = ref(b), id, 5
	made, err := w.node.Deduct(w.Context(), request)
	w.ok(err)
	calls := map[string]func(context.Context, bucket.RollbackRequest) (bucket.DeductionView, error){
		"cancel": w.node.Cancel, "rollback": w.node.Rollback, "read": w.node.Deduction}
	for _, not := range unnamed {
		not.Budget, not.RequestID = ref(b), id
		for verb, call := range calls {
			if v, err := call(w.Context(), not); !budget.Is(err, budget.Invalid) {
				w.Errorf("%s by %+v: %+v, %v", verb, not, v, err)
			}
		}
	}
	by.Budget, by.RequestID = ref(b), id
	for _, step := range []struct {
		verb  string
		state ledger.State
		left  int64
	}{{"read", ledger.StateUsed, 5}, {"cancel", ledger.StateRolledBack, 0}} {
		v, err := calls[step.verb](w.Context(), by)
		got := fmt.Sprint(v.State, v.Amount-v.RolledBack, v.Bucket, err)
		if want := fmt.Sprint(step.state, step.left, made.Bucket, nil); got != want {
			w.Errorf("%s by %+v: %s, want %s", step.verb, by, got, want)
		}
	}
}
