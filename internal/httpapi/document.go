package httpapi

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is a JSON text under construction. The answers that are given most often write themselves,
// byte for byte as the library would (tested): finding out by reflection how costs several times as much.
type document struct {
	text []byte
	// err is why the document has no JSON form; nil while it has.
	err error
}

// written is a body that writes itself.
type written interface{ writeTo(d *document) }

// Write makes a document an io.Writer for the library.
func (d *document) Write(text []byte) (int, error) {
	d.text = append(d.text, text...)
	return len(text), nil
}

// value appends any value.
func (d *document) value(v any) {
	if w, ok := v.(written); ok {
		w.writeTo(d)
	} else if err := json.MarshalWrite(d, v); err != nil {
		d.err = err
	}
}

// raw appends what is JSON already.
func (d *document) raw(text string) { d.text = append(d.text, text...) }

func (d *document) integer(n int64) { d.text = strconv.AppendInt(d.text, n, 10) }

// units appends a quantity; nil: null.
func (d *document) units(n *int64) {
	if n == nil {
		d.raw("null")
		return
	}
	d.integer(*n)
}

func (d *document) boolean(b bool) { d.text = strconv.AppendBool(d.text, b) }

// quote appends a string.
func (d *document) quote(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var err error
			if d.text, err = jsontext.AppendQuote(d.text, text); err != nil {
				d.err = err
			}
			return
		}
	}
	d.text = append(d.text, '"')
	d.text = append(d.text, text...)
	d.text = append(d.text, '"')
}

// instant appends a time that is in UTC.
func (d *document) instant(t time.Time) {
	d.text = append(d.text, '"')
	text, err := t.AppendText(d.text)
	if err != nil {
		d.err = err
		return
	}
	d.text = append(text, '"')
}

func (a *accepted) writeTo(d *document) {
	d.raw(`{"request_id":`)
	d.quote(a.RequestID)
	d.raw(`,"outcome":`)
	d.quote(a.Outcome)
	d.raw(`,"amount":`)
	d.integer(a.Amount)
	d.raw(`,"state":`)
	d.quote(string(a.State))
	d.raw(`,"bucket":`)
	d.quote(a.Bucket)
	d.raw(`,"remaining":`)
	d.units(a.Remaining)
	d.raw(`,"budget_remaining":`)
	d.units(a.BudgetRemaining)
	if a.PeriodRemaining != nil {
		d.raw(`,"period_remaining":`)
		d.units(a.PeriodRemaining)
	}
	if a.Unlimited {
		d.raw(`,"unlimited":true`)
	}
	if !a.HoldUntil.IsZero() {
		d.raw(`,"hold_until":`)
		d.instant(a.HoldUntil)
	}
	d.raw(`,"limits":[`)
	for i := range a.Limits {
		if i > 0 {
			d.raw(",")
		}
		a.Limits[i].writeTo(d)
	}
	d.raw(`],"receipt":`)
	d.quote(a.Receipt)
	d.raw(`,"replayed":`)
	d.boolean(a.Replayed)
	d.raw("}")
}

func (p *problem) writeTo(d *document) {
	d.raw(`{"type":`)
	d.quote(p.Type)
	d.raw(`,"title":`)
	d.quote(p.Title)
	d.raw(`,"status":`)
	d.integer(int64(p.Status))
	d.optional(`,"detail":`, p.Detail)
	d.raw(`,"code":`)
	d.quote(string(p.Code))
	if len(p.Errors) > 0 {
		d.raw(`,"errors":`)
		d.value(p.Errors)
	}
	d.optionalUnits(`,"available":`, p.Available)
	d.optional(`,"limit":`, p.Limit)
	d.optional(`,"dimension":`, p.Dimension)
	d.optional(`,"value":`, p.Value)
	d.optionalUnits(`,"used":`, p.Used)
	d.optionalUnits(`,"max":`, p.Max)
	if !p.ResetAt.IsZero() {
		d.raw(`,"reset_at":`)
		d.instant(p.ResetAt)
	}
	if p.RetryAfter != 0 {
		d.raw(`,"retry_after":`)
		d.value(p.RetryAfter)
	}
	if len(p.Reasons) > 0 {
		d.raw(`,"reasons":`)
		d.value(p.Reasons)
	}
	d.optional(`,"correlation_id":`, p.CorrelationID)
	d.raw("}")
}

func (v *deductionView) writeTo(d *document) {
	d.raw(`{"request_id":`)
	d.quote(v.RequestID)
	d.raw(`,"state":`)
	d.quote(string(v.State))
	d.raw(`,"amount":`)
	d.integer(v.Amount)
	d.raw(`,"rolled_back":`)
	d.integer(v.RolledBack)
	if v.Confirmed != 0 {
		d.raw(`,"confirmed":`)
		d.integer(v.Confirmed)
	}
	if !v.HoldUntil.IsZero() {
		d.raw(`,"hold_until":`)
		d.instant(v.HoldUntil)
	}
	d.optional(`,"group":`, v.Group)
	d.optional(`,"bucket":`, v.Bucket)
	if v.Dimensions != nil {
		d.raw(`,"dimensions":`)
		d.value(v.Dimensions)
	}
	d.optional(`,"reference":`, v.Reference)
	if !v.CountedAt.IsZero() {
		d.raw(`,"counted_at":`)
		d.instant(v.CountedAt)
	}
	d.optional(`,"receipt":`, v.Receipt)
	d.raw(`,"replayed":`)
	d.boolean(v.Replayed)
	d.raw("}")
}

func (h *held) writeTo(d *document) {
	d.raw(`{"group":`)
	d.quote(h.Group)
	d.raw(`,"deductions":[`)
	for i := range h.Deductions {
		if i > 0 {
			d.raw(",")
		}
		h.Deductions[i].writeTo(d)
	}
	d.raw("]}")
}

func (f *foreseen) writeTo(d *document) {
	d.raw("{")
	if f.RequestID != "" {
		d.raw(`"request_id":`)
		d.quote(f.RequestID)
		d.raw(",")
	}
	d.raw(`"outcome":`)
	d.quote(f.Outcome)
	d.raw(`,"amount":`)
	d.integer(f.Amount)
	d.raw(`,"budget_remaining":`)
	d.units(f.BudgetRemaining)
	d.optionalUnits(`,"period_remaining":`, f.PeriodRemaining)
	if f.Unlimited {
		d.raw(`,"unlimited":true`)
	}
	d.raw(`,"limits":[`)
	for i := range f.Limits {
		if i > 0 {
			d.raw(",")
		}
		f.Limits[i].writeTo(d)
	}
	d.raw("]}")
}

// optional and optionalUnits append a member that is left out where it has no value.
func (d *document) optional(name, text string) {
	if text != "" {
		d.raw(name)
		d.quote(text)
	}
}

func (d *document) optionalUnits(name string, n *int64) {
	if n != nil {
		d.raw(name)
		d.integer(*n)
	}
}

func (s *limitState) writeTo(d *document) {
	d.raw(`{"name":`)
	d.quote(s.Name)
	d.raw(`,"dimension":`)
	d.quote(s.Dimension)
	d.raw(`,"value":`)
	d.quote(s.Value)
	d.raw(`,"used":`)
	d.integer(s.Used)
	if s.Max != nil {
		d.raw(`,"max":`)
		d.units(s.Max)
	}
	if s.Exempt {
		d.raw(`,"exempt":true`)
	}
	if !s.ResetAt.IsZero() {
		d.raw(`,"reset_at":`)
		d.instant(s.ResetAt)
	}
	d.raw("}")
}

func (b batchAnswer) writeTo(d *document) {
	d.raw(`{"results":[`)
	for i, result := range b.Results {
		if i > 0 {
			d.raw(",")
		}
		d.value(result)
	}
	d.raw("]}")
}
