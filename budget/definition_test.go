package budget_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func valid() budget.Definition {
	return budget.Definition{
		Tenant: "default", Name: "spring-sale", Unit: budget.Count, Durability: budget.Ledger,
		Type: budget.Promo, TotalQuantity: 1000, BucketQuantity: 4,
	}
}

func TestDefinitionCheck(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	set := func(change func(d *budget.Definition)) budget.Definition {
		d := valid()
		change(&d)
		return d
	}
	name := func(v string) budget.Definition { return set(func(d *budget.Definition) { d.Name = v }) }
	tenant := func(v string) budget.Definition {
		return set(func(d *budget.Definition) { d.Tenant = v })
	}
	account := func(v string) budget.Definition {
		return set(func(d *budget.Definition) { d.GLCode = v })
	}
	unit := func(v budget.Unit) budget.Definition {
		return set(func(d *budget.Definition) { d.Unit = v })
	}
	durability := func(v budget.Durability) budget.Definition {
		return set(func(d *budget.Definition) { d.Durability = v })
	}
	kind := func(v budget.Type) budget.Definition {
		return set(func(d *budget.Definition) { d.Type = v })
	}
	size := func(total int64, buckets int) budget.Definition {
		return set(func(d *budget.Definition) { d.TotalQuantity, d.BucketQuantity = total, buckets })
	}
	rule := func(sharding int64, cnt int) budget.Definition {
		return set(func(d *budget.Definition) { d.ShardingQuantity, d.AdjustCnt = sharding, cnt })
	}
	span := func(start, end time.Time) budget.Definition {
		return set(func(d *budget.Definition) { d.StartAt, d.EndAt = start, end })
	}
	const most = budget.MaxAmount
	long := strings.Repeat("a", 129)
	for name, test := range map[string]struct {
		definition budget.Definition
		faults     string
	}{
		"valid":                    {valid(), ""},
		"money":                    {unit(budget.Amount), ""},
		"the least":                {size(1, 1), ""},
		"fewer units than buckets": {size(1, 1024), ""},
		"the most":                 {size(most, 1024), ""},
		"the widest rule":          {rule(most, 1_000_000_000), ""},
		"the narrowest rule":       {rule(1, 1), ""},
		"a ledger account":         {account("4711 É"), ""},
		"a span":                   {span(noon, noon.Add(1)), ""},

		"no name":                  {name(""), "name"},
		"a bad name":               {name("Sale"), "name"},
		"no tenant":                {tenant(""), "tenant"},
		"a bad tenant":             {tenant("a b"), "tenant"},
		"a bad ledger account":     {account("a\n"), "gl_code"},
		"a long ledger account":    {account(long), "gl_code"},
		"no unit":                  {unit(""), "unit"},
		"an unknown unit":          {unit("Count"), "unit"},
		"no durability":            {durability(""), "durability"},
		"an unknown durability":    {durability("memory"), "durability"},
		"no type":                  {kind(""), "type"},
		"another type":             {kind("weekly"), "type"},
		"nothing":                  {size(0, 1), "total_quantity"},
		"less than nothing":        {size(-1, 1), "total_quantity"},
		"too much":                 {size(most+1, 1), "total_quantity"},
		"the largest int64":        {size(1<<63-1, 1), "total_quantity"},
		"no buckets":               {size(1, 0), "bucket_quantity"},
		"minus one bucket":         {size(1, -1), "bucket_quantity"},
		"too many buckets":         {size(1, 1025), "bucket_quantity"},
		"a thousand million":       {size(1, 1_000_000_000), "bucket_quantity"},
		"a negative application":   {rule(-1, 0), "sharding_quantity"},
		"too large an application": {rule(most+1, 0), "sharding_quantity"},
		"negative applications":    {rule(0, -1), "adjust_cnt"},
		"too many applications":    {rule(0, 1_000_000_001), "adjust_cnt"},
		"the end before the start": {span(noon, noon.Add(-1)), "end_at"},
		"the year 0":               {span(year(0), noon), "start_at"},
		"the year 9999":            {span(noon, year(9999)), "end_at"},
		"a ttl of no child":        {timed(0, time.Hour), "ttl"},
		"a child for a while":      {timed(1, time.Hour), ""},
		"a child for too long":     {timed(1, budget.MaxHoldTTL+time.Millisecond), "ttl"},

		"everything": {budget.Definition{ShardingQuantity: -1, AdjustCnt: -1, GLCode: "\x00"},
			"tenant name gl_code unit durability type total_quantity bucket_quantity " +
				"sharding_quantity adjust_cnt"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(fieldsOf(test.definition.Check()), " ")
			if got != test.faults {
				t.Errorf("faults %q, want %q", got, test.faults)
			}
		})
	}
}

// timed is a definition with a parent, unless that is 0, and a ttl.
func timed(parent int64, ttl time.Duration) budget.Definition {
	d := valid()
	d.Parent, d.TTL = parent, ttl
	return d
}

// fieldsOf lists the faulty fields. Every fault must have a message.
func fieldsOf(faults []budget.FieldError) (fields []string) {
	for _, f := range faults {
		if f.Message != "" {
			fields = append(fields, f.Field)
		}
	}
	return fields
}

func TestCheckSpan(t *testing.T) {
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	east := time.FixedZone("east", 12*3600)
	for name, test := range map[string]struct {
		start, end time.Time
		faults     []string
	}{
		"neither":                        {time.Time{}, time.Time{}, nil},
		"only a start":                   {noon, time.Time{}, nil},
		"only an end":                    {time.Time{}, noon, nil},
		"a nanosecond":                   {noon, noon.Add(1), nil},
		"no time between":                {noon, noon, []string{"end_at"}},
		"the end first":                  {noon, noon.Add(-1), []string{"end_at"}},
		"the same instant in two zones":  {noon, noon.In(east), []string{"end_at"}},
		"the first year":                 {year(1970), year(1971), nil},
		"the year before":                {year(1970).Add(-1), noon, []string{"start_at"}},
		"the last year":                  {noon, year(9999).Add(-1), nil},
		"the year after":                 {noon, year(9999), []string{"end_at"}},
		"by UTC, not by its zone":        {noon, year(9999).In(east).Add(-1), nil},
		"by UTC, before the first year":  {year(1970).In(east).Add(-1), noon, []string{"start_at"}},
		"both out of range":              {year(2), year(9999), []string{"start_at", "end_at"}},
		"both out of range and reversed": {year(9999), year(2), []string{"start_at", "end_at", "end_at"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fieldsOf(budget.CheckSpan(test.start, test.end)); !slices.Equal(got, test.faults) {
				t.Errorf("faults %v, want %v", got, test.faults)
			}
		})
	}
}

func TestStatusAndRefusal(t *testing.T) {
	start, end := noon, noon.Add(time.Hour)
	never, elsewhere := time.Time{}, time.FixedZone("elsewhere", -3600)
	before, soon, over := start.Add(-1), end.Add(-1), end.Add(1)
	refusals := map[budget.Status]budget.Code{budget.Pending: budget.BudgetNotEffective,
		budget.Paused: budget.BudgetPaused, budget.Expired: budget.BudgetExpired}
	for name, test := range map[string]struct {
		start, end time.Time
		paused     bool
		now        time.Time
		status     budget.Status
	}{
		"without times":               {never, never, false, noon, budget.Effective},
		"without times, paused":       {never, never, true, noon, budget.Paused},
		"a nanosecond before start":   {start, end, false, before, budget.Pending},
		"at the start":                {start, end, false, start, budget.Effective},
		"a nanosecond before the end": {start, end, false, soon, budget.Effective},
		"at the end":                  {start, end, false, end, budget.Expired},
		"after the end":               {start, end, false, over, budget.Expired},
		"at the end, another zone":    {start, end, false, end.In(elsewhere), budget.Expired},
		"paused before the start":     {start, end, true, before, budget.Paused},
		"paused while it runs":        {start, end, true, start, budget.Paused},
		"paused and at the end":       {start, end, true, end, budget.Expired},
		"only a start, before":        {start, never, false, before, budget.Pending},
		"only a start, long after":    {start, never, false, over, budget.Effective},
		"only an end, long before":    {never, end, false, never, budget.Effective},
		"only an end, at it":          {never, end, false, end, budget.Expired},
	} {
		t.Run(name, func(t *testing.T) {
			d := valid()
			d.StartAt, d.EndAt, d.Paused = test.start, test.end, test.paused
			if got := d.StatusAt(test.now); got != test.status {
				t.Errorf("status %q, want %q", got, test.status)
			}
			refusal := d.RefusalAt(test.now)
			want, refused := refusals[test.status]
			if !refused {
				if refusal != nil {
					t.Errorf("refusal %v, want none", refusal)
				}
				return
			}
			if refusal == nil || refusal.Code != want || refusal.Code.Kind() != budget.Refused ||
				!strings.Contains(refusal.Message, "spring-sale") {
				t.Errorf("refusal %v, want %q that names the budget", refusal, want)
			}
		})
	}
}

func TestDefaultBuckets(t *testing.T) {
	for _, test := range []struct {
		unit       budget.Unit
		period     int64
		partitions int
		want       int
	}{
		{budget.Count, 0, 1, 1}, {budget.Count, 1, 1, 1}, {budget.Count, 1_000, 1, 1},
		{budget.Count, 1_001, 1, 2}, {budget.Count, 2_000, 1, 2}, {budget.Count, 63_001, 1, 64},
		{budget.Count, 64_001, 1, 64}, {budget.Count, budget.MaxAmount, 1, 64},
		{budget.Amount, 1_000_000, 1, 1}, {budget.Amount, 1_000_001, 1, 2},
		{budget.Amount, budget.MaxAmount, 1, 64},
		{budget.Count, 1_000, 3, 1}, {budget.Count, 3_000, 3, 3}, {budget.Count, 10_000, 3, 12},
		{budget.Count, 63_000, 16, 64}, {budget.Count, 62_000, 5, 64}, {budget.Count, 5_000, 0, 5},
	} {
		if got := budget.DefaultBuckets(test.unit, test.period, test.partitions); got != test.want {
			t.Errorf("%s of %d on %d partitions: %d buckets, want %d", test.unit, test.period, test.partitions,
				got, test.want)
		}
	}
}
