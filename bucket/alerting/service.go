// Package alerting compares the thresholds of all budgets with their figures, lets package alert
// decide about them, and stores thresholds, alerts, and the outbox of messages about them, from
// which package webhook sends. It costs little: the figures come from the minute's samples and from
// the audit's pass over all books, which reads them anyway. Nothing here is on the path of a
// deduction.
package alerting

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/limit"
)

// stepTime bounds one read or transaction.
const stepTime = 5 * time.Second

// Observer receives counts for metrics. It is safe for concurrent use, and its methods return at
// once.
type Observer interface {
	// AlertsEvaluated reports how many thresholds of each kind were compared with their figures.
	AlertsEvaluated(thresholds map[alert.Kind]int)
	// AlertsFiring reports how many alerts of each kind fire, after a pass over all budgets.
	AlertsFiring(alerts map[alert.Kind]int)
}

// Config configures a Service.
type Config struct {
	DB      *engine.DB
	Budgets *bucket.Budgets
	// Outbox gets the messages about alerts.
	Outbox *Outbox
	// LastSamples returns the newest sample of each budget from first to last, SamplesAt the one that
	// was valid at an instant, else the first one after it. Budgets without samples are missing.
	// Error: Unavailable.
	LastSamples func(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error)
	SamplesAt   func(ctx context.Context, first, last int64, at time.Time) (
		map[int64]bucket.Sample, error)
	// Usages returns the present usage of the limits of charges. Error: Unavailable.
	Usages func(ctx context.Context, asked []bucket.Charged) ([][]*limit.Usage, error)
	// Defaults says that budgets without thresholds of their own have alert.Defaults.
	Defaults bool
	Observer Observer
	Log      *slog.Logger
}

// Service shows and changes thresholds and shows alerts. It is safe for concurrent use.
type Service struct{ Config }

// New returns a service. It contacts nothing.
func New(c Config) *Service { return &Service{c} }

const (
	selectThresholds = `SELECT budget_id, thresholds FROM alert_threshold /*by PRIMARY*/
		WHERE budget_id >= ? AND budget_id <= ?`
	lockThresholds = `SELECT budget_id, thresholds FROM alert_threshold /*by PRIMARY*/
		WHERE budget_id = ? /*locked*/`
	insertThresholds = `INSERT INTO alert_threshold (budget_id, thresholds, changed_ms)
		VALUES (?, ?, ?)`
	updateThresholds = `UPDATE alert_threshold SET thresholds = ?, changed_ms = ?
		WHERE budget_id = ?`
	deleteThresholds = `DELETE FROM alert_threshold WHERE budget_id = ?`
)

type thresholdsRow struct {
	Budget int64  `db:"budget_id"`
	Text   []byte `db:"thresholds"`
}

// Thresholds returns the thresholds of a budget, and whether they are its own. Errors:
// BudgetNotFound, Unavailable.
func (s *Service) Thresholds(ctx context.Context, ref bucket.BudgetRef) (
	list []alert.Threshold, own bool, err error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return nil, false, err
	}
	all, err := s.thresholds(ctx, b.ID, b.ID)
	if err != nil {
		return nil, false, err
	}
	list, own = all[b.ID]
	if !own && s.Defaults {
		list = alert.Defaults()
	}
	return list, own, nil
}

// thresholds reads the thresholds of the budgets with ids from first to last that have their own.
// Error: Unavailable.
func (s *Service) thresholds(ctx context.Context, first, last int64) (
	map[int64][]alert.Threshold, error) {
	found, err := engine.List[thresholdsRow](ctx, s.DB, "thresholds", selectThresholds, first, last)
	out := make(map[int64][]alert.Threshold, len(found))
	for _, row := range found {
		list := []alert.Threshold{}
		if e := json.Unmarshal(row.Text, &list); e != nil {
			return nil, engine.Defect("thresholds of budget %d: %v", row.Budget, e)
		}
		out[row.Budget] = list
	}
	return out, err
}

// SetThresholds replaces the thresholds of a budget; nil restores the defaults. States of removed
// thresholds are resolved. Errors: BudgetNotFound; Invalid with the faulty fields; LedgerModeOnly
// for a limit in store mode; Unavailable, OutcomeUnknown. It is idempotent, and records the change
// for the audit log.
func (s *Service) SetThresholds(ctx context.Context, ref bucket.BudgetRef,
	list []alert.Threshold) error {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return err
	}
	faults := alert.Check(list)
	for _, t := range list {
		switch {
		case t.Of != alert.Limit:
		case b.Durability == budget.Store:
			return budget.Refuse(budget.LedgerModeOnly, "thresholds",
				"the counts of limits of a budget in store mode are in its stores")
		case chargeOf(b, t) == nil:
			faults = append(faults, budget.FieldError{Field: "thresholds",
				Message: t.Name() + ": the budget has no limit " + t.Limit + " of one dimension"})
		}
	}
	if len(faults) > 0 {
		return &budget.Error{Code: budget.Invalid, Op: "thresholds", Fields: faults,
			Message: "the thresholds have faults"}
	}
	after, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return s.DB.Write(ctx, "thresholds", func(t *engine.Tx) error {
		var before thresholdsRow
		found, err := t.Get(&before, lockThresholds, b.ID)
		if err != nil {
			return err
		}
		if list == nil {
			auditlog.FromContext(ctx).Change(b.Tenant, b.Name, before.Text, nil)
			_, err = t.Exec(deleteThresholds, b.ID)
			return err
		}
		auditlog.FromContext(ctx).Change(b.Tenant, b.Name, before.Text, after)
		if found {
			_, err = t.Exec(updateThresholds, after, engine.ToMS(t.Now), b.ID)
			return err
		}
		_, err = t.Exec(insertThresholds, b.ID, after, engine.ToMS(t.Now))
		return err
	})
}

const (
	selectAlerts = `SELECT ` + stateColumns + `, u.tenant, u.name FROM alert a
		JOIN budget_management_bucket u ON u.id = a.budget_id WHERE a.id < ?`
	alertsOrder = ` ORDER BY a.id DESC LIMIT ?`
)

// Alerts lists alerts, the newest first. Error: Unavailable.
func (s *Service) Alerts(ctx context.Context, q alert.Query) (out []alert.View, err error) {
	q.Before = cmp.Or(q.Before, math.MaxInt64)
	query, args := selectAlerts, []any{q.Before}
	if q.Budget != 0 {
		query, args = query+` AND a.budget_id = ?`, append(args, q.Budget)
	}
	if q.Tenant != "" {
		query, args = query+` AND u.tenant = ?`, append(args, []byte(q.Tenant))
	}
	if q.State != "" {
		firing := 0
		if q.State == alert.StateFiring {
			firing = 1
		}
		query, args = query+` AND a.is_firing = ?`, append(args, firing)
	}
	type view struct {
		stateRow
		Tenant string `db:"tenant"`
		Name   string `db:"name"`
	}
	found, err := engine.List[view](ctx, s.DB, "alerts", query+alertsOrder,
		append(args, q.Limit)...)
	for i := range found {
		row := &found[i]
		out = append(out, alert.View{Tenant: row.Tenant, Name: row.Name, State: row.state()})
	}
	return out, err
}

// chargeOf returns the value of a limit that a threshold watches. It returns nil if there is no
// such limit, or if the limit has several dimensions.
func chargeOf(b *bucket.Budget, t alert.Threshold) *limit.Charge {
	set := b.LimitSet()
	if set == nil || set.InStores {
		return nil
	}
	l := set.Limit(t.Limit)
	if l == nil || len(l.Dimensions()) != 1 {
		return nil
	}
	only := limit.Set{List: []*limit.Limit{l}}
	charges, _ := only.Charges(1, map[string]string{l.Dimensions()[0]: t.Value}, nil)
	if len(charges) != 1 {
		return nil
	}
	return &charges[0]
}
