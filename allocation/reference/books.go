package reference

import "time"

// Event is one event in the life of a budget. Exactly one of Use, Refund, Change and Quantity is
// not 0.
type Event struct {
	At time.Time
	// Use is a deduction, accepted if the open page covers it.
	Use int64
	// Refund gives back part of the deduction of event Of, accepted if that much is left of it.
	Refund int64
	Of     int
	// Change is an append or, if negative, a shrink.
	Change int64
	// Quantity is a new quantity of a calendar rule.
	Quantity int64
}

// Answer is the outcome of an event.
type Answer string

// The answers to events.
const (
	Accepted        Answer = "accepted"
	PeriodExhausted Answer = "period exhausted" // a later period may cover it
	BudgetExhausted Answer = "budget exhausted"
	Refused         Answer = "refused"
)

// Reply is the answer to an event and, if it was refused, what was available.
type Reply struct {
	Answer    Answer
	Available int64
}

// Book is a budget's account of its periods, in minor units.
type Book struct {
	// NotFunded is F, Forfeited X, Total T.
	NotFunded, Forfeited, Total int64
	// Pages are in the order of opening. The last one is open, unless Over.
	Pages []Page
	// Over means that the last period has ended.
	Over bool
	// Replies has one per event.
	Replies []Reply

	rule       Rule
	lateRefund string
	periods    []Period
	next       int     // the first period without a page
	plan       []int64 // each period's share of the total if it is spread evenly
	planned    int64   // the total that plan divides
	uses       []use   // one per event
}

// Page is a period, or the part of one between two changes of the rule.
type Page struct {
	Start, End time.Time
	// Period is its number in the list, from 0.
	Period int
	// Funded is what it got of the total, less what a shrink took back. Carried is what earlier
	// pages passed to it. Used is what was used and not refunded. Before was used between Start and
	// the opening of the page.
	Funded, Carried, Used, Before int64
	// Returned went to F, Passed to a later page, Forfeited to X.
	Returned, Passed, Forfeited int64
}

// Left returns what can still be used.
func (p *Page) Left() int64 {
	return p.Funded + p.Carried - p.Used - p.Returned - p.Passed - p.Forfeited
}

// use is an accepted deduction.
type use struct {
	at    time.Time
	page  int
	units int64 // less those given back
}

// NewBook opens the first page, even if its period has not begun.
func NewBook(rule Rule, periods []Period, lateRefund string, total int64) *Book {
	b := &Book{NotFunded: total, Total: total, rule: rule, lateRefund: lateRefund, periods: periods}
	b.openNext(0)
	return b
}

// Play applies events in order and then continues until an instant.
func Play(
	rule Rule, periods []Period, lateRefund string, total int64, events []Event, until time.Time,
) *Book {
	b := NewBook(rule, periods, lateRefund, total)
	for _, event := range events {
		b.Apply(event)
	}
	b.RollTo(until)
	return b
}

// deal spreads the total over all periods by weight. A fraction of a unit is carried to the next
// period.
func (b *Book) deal() {
	all, kept := int64(0), int64(0)
	for _, p := range b.periods {
		all += p.weight()
	}
	b.plan, b.planned = nil, b.Total
	for _, p := range b.periods {
		kept += b.Total * p.weight()
		b.plan = append(b.plan, kept/all)
		kept -= kept / all * all
	}
}

// due returns a period's share of unfunded units: its share in the plan, plus its part of the
// difference between units and what the plan needs from now on. The first periods get the larger
// parts.
func (b *Book) due(period int, units int64) int64 {
	if b.planned != b.Total {
		b.deal()
	}
	rest, left := units, int64(0)
	for i := period; i < len(b.periods); i++ {
		rest -= b.plan[i]
		left += b.periods[i].weight()
	}
	part := rest * b.periods[period].weight() / left // towards zero: up where it is negative
	if rest > 0 && part*left != rest*b.periods[period].weight() {
		part++
	}
	return min(max(b.plan[period]+part, 0), units)
}

func (b *Book) page() *Page { return &b.Pages[len(b.Pages)-1] }

// RollTo closes the periods that have ended at an instant and opens the next ones.
func (b *Book) RollTo(at time.Time) {
	for !b.Over && !b.page().End.After(at) {
		b.openNext(b.close())
	}
}

// quantity returns what the rule fixes for a period, in proportion if it is cut.
func (b *Book) quantity(period int) int64 {
	q := b.rule.Quantity
	if b.rule.Kind == "windows" {
		q = b.periods[period].Quantity
	}
	return b.periods[period].of(q, true)
}

// openNext opens a page for the next period, with the units carried to it.
func (b *Book) openNext(carried int64) {
	if b.next == len(b.periods) {
		b.Over = true
		return
	}
	p := b.periods[b.next]
	b.openPage(Page{Start: p.Start, End: p.End, Period: b.next, Carried: carried})
	b.next++
}

// openPage funds a page.
func (b *Book) openPage(p Page) {
	switch q := b.quantity(p.Period); {
	case b.rule.Kind == "free":
		p.Funded = b.NotFunded
	case q == 0: // equal parts
		p.Funded = b.due(p.Period, b.NotFunded)
	case q > p.Before:
		p.Funded = min(b.NotFunded, q-p.Before)
	}
	b.NotFunded -= p.Funded
	b.Pages = append(b.Pages, p)
}

// close returns what the page carries to the next one.
func (b *Book) close() (carried int64) {
	page, last := b.page(), b.next == len(b.periods)
	rest := page.Left()
	switch {
	case b.rule.Unused == "forfeit":
		page.Forfeited += rest
		b.Forfeited += rest
	case b.rule.Unused == "next" && !last:
		carried = rest
		if most := b.rule.MaxRollover; most > 0 {
			carried = min(rest, most)
		}
		page.Passed += carried
		b.toTotal(page, rest-carried)
	default:
		b.toTotal(page, rest)
	}
	return carried
}

// toTotal returns units of a page to the remaining periods.
func (b *Book) toTotal(page *Page, units int64) {
	page.Returned += units
	b.NotFunded += units
}

// Apply applies one event, which must not precede the one before it.
func (b *Book) Apply(e Event) Reply {
	b.RollTo(e.At)
	b.uses = append(b.uses, use{})
	var reply Reply
	switch {
	case e.Use > 0:
		reply = b.use(e)
	case e.Refund > 0:
		reply = b.refund(e)
	case e.Quantity > 0:
		reply = b.changeQuantity(e)
	case e.Change > 0:
		b.Total += e.Change
		b.NotFunded += e.Change
		b.topUp()
		reply.Answer = Accepted
	default:
		reply = b.shrink(-e.Change)
	}
	b.Replies = append(b.Replies, reply)
	return reply
}

func (b *Book) use(e Event) Reply {
	page := b.page()
	left := page.Left()
	switch more := b.NotFunded > 0 && b.next < len(b.periods); {
	case b.Over:
		return Reply{Answer: Refused}
	case e.At.Before(page.Start):
		return Reply{Answer: PeriodExhausted}
	case left >= e.Use:
		page.Used += e.Use
		b.uses[len(b.uses)-1] = use{e.At, len(b.Pages) - 1, e.Use}
		return Reply{Answer: Accepted}
	case more && left+b.NotFunded >= e.Use:
		return Reply{PeriodExhausted, left}
	}
	return Reply{BudgetExhausted, left}
}

func (b *Book) refund(e Event) Reply {
	was := &b.uses[e.Of]
	if was.units < e.Refund {
		return Reply{Refused, was.units}
	}
	was.units -= e.Refund
	page := &b.Pages[was.page]
	page.Used -= e.Refund
	switch late := b.Over || was.page != len(b.Pages)-1; {
	case !late:
	case b.lateRefund == "forfeit":
		page.Forfeited += e.Refund
		b.Forfeited += e.Refund
	case b.lateRefund == "next" && !b.Over:
		page.Passed += e.Refund
		b.page().Carried += e.Refund
	default:
		b.toTotal(page, e.Refund)
	}
	return Reply{Answer: Accepted}
}

// shrink takes unfunded units first.
func (b *Book) shrink(units int64) Reply {
	page, available := b.page(), b.NotFunded
	if !b.Over {
		available += page.Left()
	}
	if available < units {
		return Reply{Refused, available}
	}
	b.Total -= units
	if rest := units - b.NotFunded; rest > 0 {
		funded := min(rest, page.Funded)
		page.Funded -= funded
		page.Returned += rest - funded // of what was carried
		b.NotFunded = 0
		return Reply{Answer: Accepted}
	}
	b.NotFunded -= units
	return Reply{Answer: Accepted}
}

// changeQuantity changes the quantity of a calendar rule. A page that got no more than that
// continues. Otherwise the rest of its period starts a new page, which notes what the period has
// used.
func (b *Book) changeQuantity(e Event) Reply {
	same := e.Quantity == b.rule.Quantity
	b.rule.Quantity = e.Quantity
	if b.Over {
		return Reply{Answer: Accepted}
	}
	page := b.page()
	if same || b.quantity(page.Period) >= page.Funded+page.Before {
		b.topUp()
		return Reply{Answer: Accepted}
	}
	rest := Page{Start: page.Start, End: page.End, Period: page.Period}
	b.toTotal(page, page.Left())
	page.End = e.At
	for _, u := range b.uses {
		if !u.at.Before(rest.Start) {
			rest.Before += u.units
		}
	}
	b.openPage(rest)
	return Reply{Answer: Accepted}
}

// topUp funds the open page up to what it would get of all unfunded units.
func (b *Book) topUp() {
	if b.Over {
		return
	}
	page := b.page()
	more := b.NotFunded
	switch q := b.quantity(page.Period); {
	case b.rule.Kind == "free":
	case q == 0:
		more = b.due(page.Period, b.NotFunded+page.Funded) - page.Funded
	default:
		more = q - page.Before - page.Funded
	}
	if more = min(more, b.NotFunded); more > 0 {
		page.Funded += more
		b.NotFunded -= more
	}
}
