package httpapi

import (
	"strconv"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// document is a JSON text under construction. The most frequent answers encode themselves, byte for
// byte as the library would (a test compares them), because the library's reflection costs several
// times as much.
type document struct {
	Text []byte
	// Err is the reason why the document has no JSON form; nil if it has.
	Err error
}

// Write implements io.Writer for the library.
func (d *document) Write(text []byte) (int, error) {
	d.Text = append(d.Text, text...)
	return len(text), nil
}

// Value appends any value.
func (d *document) Value(v any) {
	switch v := v.(type) {
	case *api.DeductAnswer:
		d.accepted(v)
	case *api.Foreseen:
		d.foreseen(v)
	case *api.Problem:
		d.problem(v)
	case batchAnswer:
		d.batch(v)
	case remaining:
		d.remaining(v)
	default:
		if err := json.MarshalWrite(d, v, json.Deterministic(true)); err != nil {
			d.Err = err
		}
	}
}

// Raw appends JSON text.
func (d *document) Raw(text string) { d.Text = append(d.Text, text...) }

func (d *document) integer(n int64) { d.Text = strconv.AppendInt(d.Text, n, 10) }

// units appends a quantity, or null for nil.
func (d *document) units(n *int64) {
	if n == nil {
		d.Raw("null")
		return
	}
	d.integer(*n)
}

func (d *document) boolean(b bool) { d.Text = strconv.AppendBool(d.Text, b) }

// quote appends a string.
func (d *document) quote(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			var err error
			if d.Text, err = jsontext.AppendQuote(d.Text, text); err != nil {
				d.Err = err
			}
			return
		}
	}
	d.Text = append(d.Text, '"')
	d.Text = append(d.Text, text...)
	d.Text = append(d.Text, '"')
}

// instant appends a time, which must be in UTC.
func (d *document) instant(t time.Time) {
	d.Text = append(d.Text, '"')
	text, err := t.AppendText(d.Text)
	if err != nil {
		d.Err = err
		return
	}
	d.Text = append(text, '"')
}

func (d *document) accepted(a *api.DeductAnswer) {
	d.Raw(`{"request_id":`)
	d.quote(a.RequestID)
	d.Raw(`,"outcome":`)
	d.quote(a.Outcome)
	d.Raw(`,"amount":`)
	d.integer(a.Amount)
	d.Raw(`,"state":`)
	d.quote(a.State)
	d.Raw(`,"bucket":`)
	d.quote(a.Bucket)
	d.Raw(`,"bucket_remaining":`)
	d.units(a.BucketRemaining)
	d.Raw(`,"budget_remaining":`)
	d.units(a.BudgetRemaining)
	d.optionalUnits(`,"period_remaining":`, a.PeriodRemaining)
	if a.Unlimited {
		d.Raw(`,"unlimited":true`)
	}
	if !a.HoldUntil.IsZero() {
		d.Raw(`,"hold_until":`)
		d.instant(a.HoldUntil)
	}
	if a.ExpiresIn != nil {
		d.Raw(`,"expires_in":`)
		d.Value(*a.ExpiresIn)
	}
	d.Raw(`,"limits":`)
	d.states(a.Limits)
	d.Raw(`,"receipt":`)
	d.quote(a.Receipt)
	for i, leg := range a.Legs {
		if i == 0 {
			d.Raw(`,"legs":[`)
		} else {
			d.Raw(`,`)
		}
		d.Raw(`{"budget":`)
		d.quote(leg.Budget)
		d.Raw(`,"amount":`)
		d.integer(leg.Amount)
		d.Raw(`}`)
	}
	if len(a.Legs) > 0 {
		d.Raw(`]`)
	}
	d.Raw(`,"replayed":`)
	d.boolean(a.Replayed)
	d.Raw("}")
}

func (d *document) problem(p *api.Problem) {
	d.Raw(`{"type":`)
	d.quote(p.Type)
	d.Raw(`,"title":`)
	d.quote(p.Title)
	d.Raw(`,"status":`)
	d.integer(int64(p.Status))
	d.optional(`,"detail":`, p.Detail)
	d.Raw(`,"code":`)
	d.quote(string(p.Code))
	d.Raw(`,"docs":`)
	d.quote(p.Docs)
	d.optional(`,"budget":`, p.Budget)
	d.optional(`,"request_id":`, p.RequestID)
	if len(p.Errors) > 0 {
		d.Raw(`,"errors":`)
		d.Value(p.Errors)
	}
	d.optionalUnits(`,"available":`, p.Available)
	d.optional(`,"limit":`, p.Limit)
	d.optional(`,"dimension":`, p.Dimension)
	d.optional(`,"value":`, p.Value)
	d.optionalUnits(`,"used":`, p.Used)
	d.optionalUnits(`,"max":`, p.Max)
	if !p.ResetAt.IsZero() {
		d.Raw(`,"reset_at":`)
		d.instant(p.ResetAt)
	}
	if len(p.Limits) > 0 {
		d.Raw(`,"limits":`)
		d.states(p.Limits)
	}
	if len(p.Refusals) > 0 {
		d.Raw(`,"refusals":`)
		d.Value(p.Refusals)
	}
	d.optional(`,"state":`, p.State)
	if p.Never {
		d.Raw(`,"never":true`)
	}
	if !p.StartAt.IsZero() {
		d.Raw(`,"start_at":`)
		d.instant(p.StartAt)
	}
	d.optional(`,"reason":`, string(p.Reason))
	if p.RetryAfter != 0 {
		d.Raw(`,"retry_after":`)
		d.Value(p.RetryAfter)
	}
	if len(p.Reasons) > 0 {
		d.Raw(`,"reasons":`)
		d.Value(p.Reasons)
	}
	d.optional(`,"correlation_id":`, p.CorrelationID)
	d.Raw("}")
}

func (d *document) foreseen(f *api.Foreseen) {
	d.Raw("{")
	if f.RequestID != "" {
		d.Raw(`"request_id":`)
		d.quote(f.RequestID)
		d.Raw(",")
	}
	d.Raw(`"outcome":`)
	d.quote(f.Outcome)
	d.Raw(`,"amount":`)
	d.integer(f.Amount)
	d.Raw(`,"budget_remaining":`)
	d.units(f.BudgetRemaining)
	d.optionalUnits(`,"period_remaining":`, f.PeriodRemaining)
	if f.Unlimited {
		d.Raw(`,"unlimited":true`)
	}
	d.Raw(`,"limits":`)
	d.states(f.Limits)
	if f.Replayed {
		d.Raw(`,"replayed":true`)
	}
	d.Raw("}")
}

// optional and optionalUnits append a member unless it has no value.
func (d *document) optional(name, text string) {
	if text != "" {
		d.Raw(name)
		d.quote(text)
	}
}

func (d *document) optionalUnits(name string, n *int64) {
	if n != nil {
		d.Raw(name)
		d.integer(*n)
	}
}

// states appends a list of limits.
func (d *document) states(list []api.LimitState) {
	d.Raw("[")
	for i := range list {
		if i > 0 {
			d.Raw(",")
		}
		d.state(&list[i])
	}
	d.Raw("]")
}

func (d *document) state(s *api.LimitState) {
	d.Raw(`{"name":`)
	d.quote(s.Name)
	d.Raw(`,"dimension":`)
	d.quote(s.Dimension)
	d.Raw(`,"value":`)
	d.quote(s.Value)
	d.Raw(`,"used":`)
	d.integer(s.Used)
	if s.Max != nil {
		d.Raw(`,"max":`)
		d.units(s.Max)
	}
	if s.Exempt {
		d.Raw(`,"exempt":true`)
	}
	if s.Asked != 0 {
		d.Raw(`,"asked":`)
		d.integer(s.Asked)
	}
	if !s.ResetAt.IsZero() {
		d.Raw(`,"reset_at":`)
		d.instant(s.ResetAt)
	}
	d.Raw("}")
}

func (d *document) batch(b batchAnswer) {
	d.Raw(`{"results":[`)
	for i, result := range b.Results {
		if i > 0 {
			d.Raw(",")
		}
		d.Value(result)
	}
	d.Raw("]}")
}

// remaining appends what budgets have left, as api.RemainingList.
func (d *document) remaining(r remaining) {
	d.Raw(`{"budgets":{`)
	last, asOf := time.Time{}, ""
	for i, g := range r.gauges {
		if i > 0 {
			d.Raw(",")
		}
		d.quote(r.names[i])
		if g == nil {
			d.Raw(":null")
			continue
		}
		d.Raw(`:{"remaining":`)
		d.units(g.Remaining)
		d.Raw(`,"serving":"`)
		d.Raw(string(g.Serving))
		d.Raw(`","as_of":`)
		if g.AsOf != last || asOf == "" { // those that were read together have the same
			at := len(d.Text)
			d.instant(g.AsOf)
			last, asOf = g.AsOf, string(d.Text[at:])
		} else {
			d.Raw(asOf)
		}
		d.Raw("}")
	}
	d.Raw("}}")
}
