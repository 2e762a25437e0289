package books

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// OverrideID identifies a row of limit_override.
type OverrideID struct {
	Budget, Series int64
	Value          string
}

// Override is a row of limit_override. It changes only under its budget's lock.
type Override struct {
	Budget  int64   `db:"budget_id" key:""`
	Series  int64   `db:"series" key:""`
	Value   string  `db:"value" key:""`
	Long    *string `db:"long_value"`
	Max     int64   `db:"max_quantity"`
	Exempt  int64   `db:"is_exempt"`
	Version int64   `db:"version"`
}

// ID returns the key of the row.
func (r *Override) ID() OverrideID { return OverrideID{r.Budget, r.Series, r.Value} }

// RemovedOverride is a row of limit_override_removed.
type RemovedOverride struct {
	Budget  int64  `db:"budget_id" key:""`
	Version int64  `db:"version" key:""`
	Series  int64  `db:"series" key:""`
	Value   string `db:"value" key:""`
}

// GoneSeries is a row of limit_override_series.
type GoneSeries struct {
	Budget int64 `db:"budget_id" key:""`
	Series int64 `db:"series" key:""`
	GoneMS int64 `db:"gone_ms"`
}

// NewOverride returns the row of an override of a limit, whose series and version the caller sets.
// ok is false if the override has no valid value.
func NewOverride(budgetID int64, o budget.Override, dimensions []string) (row Override, ok bool) {
	key, long, ok := limit.OverrideKey(o, dimensions)
	row = Override{Budget: budgetID, Value: key, Max: o.Max, Exempt: one(o.Exempt)}
	if long != "" {
		row.Long = &long
	}
	return row, ok
}

// Override sets and removes overrides of a limit, whose rows are loaded, as far as they differ, and
// reports whether anything did. Counters stay as they are. In ledger mode flights read overrides,
// so the buckets' list version changes only for the first one, by which nodes learn that there are
// any; in store mode nodes follow every change.
func (b *Books) Override(u *Budget, l *Limit, set []Override, remove []string) (changed bool) {
	none, version := l.Overrides == 0, u.OverridesVersion+1
	if l.Series == 0 && len(set) > 0 {
		l.Series = version
	}
	for _, row := range set {
		row.Series, row.Version = l.Series, version
		switch now := b.Overrides.Get(row.ID()); {
		case now == nil:
			b.Overrides.Add(row)
			l.Overrides++
		case now.Max == row.Max && now.Exempt == row.Exempt:
			continue
		default:
			now.Max = row.Max
			now.Exempt = row.Exempt
			now.Version = version
		}
		changed = true
	}
	gone := map[OverrideID]bool{}
	for _, value := range remove {
		id := OverrideID{u.ID, l.Series, value}
		if b.Overrides.Get(id) == nil || gone[id] {
			continue
		}
		gone[id], changed = true, true
		l.Overrides--
		if u.Durability == Word(budget.Store) {
			b.RemovedOverrides.Add(RemovedOverride{u.ID, version, l.Series, value})
		}
	}
	b.Overrides.Remove(func(r *Override) bool { return gone[r.ID()] })
	if !changed {
		return false
	}
	u.OverridesVersion = version
	if u.Durability == Word(budget.Store) {
		u.LimitsVersion++ // the stores refuse what a node judges that the database does not answer
	}
	if u.Durability == Word(budget.Store) || none {
		u.ListVersion++
	}
	return true
}

// addOverrides adds the overrides that a definition gives a limit.
func (b *Books) addOverrides(u *Budget, l *budget.Limit) {
	for _, o := range l.Overrides {
		row, ok := NewOverride(u.ID, o, l.Dimensions())
		if !ok {
			continue // limit.CheckDefinition has refused it
		}
		row.Series, row.Version = l.OverrideSeries, u.OverridesVersion
		b.Overrides.Add(row)
	}
}

// dropSeries notes the series of overrides that no limit has any more.
func (b *Books) dropSeries(u *Budget, d budget.Definition) {
	kept := map[int64]bool{0: true}
	if d.Limits != nil {
		for _, l := range d.Limits.List {
			kept[l.OverrideSeries] = true
		}
	}
	for _, row := range b.Limits.All() {
		if row.Budget == u.ID && !kept[row.Series] {
			b.GoneSeries.Add(GoneSeries{u.ID, row.Series, b.NowMS})
		}
	}
}
