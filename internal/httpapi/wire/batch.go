package wire

import (
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// MaxBatch is the most deductions in a batch.
const MaxBatch = 1000

// Deductions is the body of a batch. TooMany reports that it holds more than MaxBatch.
type Deductions struct {
	Items []*BatchItem
	// free holds spare items. Allocating several at once costs less than one by one.
	free    []BatchItem
	TooMany bool
}

func (d *Deductions) Member(r *strictjson.Reader, name string) bool {
	if name != "deductions" {
		return false
	}
	r.Objects(name, func(i int) (strictjson.Body, *api.Faults) {
		if i == MaxBatch {
			d.TooMany = true
			return nil, nil
		}
		if len(d.free) == 0 {
			const most = 64
			d.free = make([]BatchItem, min(max(i, 1), most))
		}
		item := &d.free[0]
		d.free = d.free[1:]
		d.Items = append(d.Items, item)
		return item, &item.Faults
	})
	return true
}

func (d *Deductions) Check(r *strictjson.Reader) {
	r.Require("deductions")
	if len(d.Items) == 0 && r.Seen("deductions") && !r.Has("deductions") &&
		!r.Has("deductions[0]") {
		r.Invalid("deductions", "must hold 1 to %d deductions", MaxBatch)
	}
}

// BatchItem is one deduction of a batch.
type BatchItem struct {
	Deduction
	Budget string
	Faults api.Faults
}

func (d *BatchItem) Member(r *strictjson.Reader, name string) bool {
	if name == "budget" {
		r.ID(name, &d.Budget)
		return true
	}
	return d.Deduction.Member(r, name)
}

func (d *BatchItem) Check(r *strictjson.Reader) {
	r.Require("budget")
	d.Deduction.Check(r)
}

// BatchAnswer holds an accepted deduction or a problem for each deduction, in order.
type BatchAnswer struct {
	Results []any `json:"results"`
}
