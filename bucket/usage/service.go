// Package usage sums the deductions of dimension values, and lists
// the values nearest a limit's maximum, in ledger mode. It changes nothing and takes no locks.
package usage

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// defaultDeadline bounds one call.
const defaultDeadline = 5 * time.Second

// Config configures a Service.
type Config struct {
	DB      *engine.DB
	Budgets *bucket.Budgets
	// Observer receives failed SQL calls. It may be nil.
	Observer bucket.Calls
	// Deadline bounds one call; 5 s when 0.
	Deadline time.Duration
}

// Service answers the usage of budgets in ledger mode. It is safe for concurrent
// use.
type Service struct{ Config }

// New returns a service. It does not contact the database.
func New(c Config) *Service {
	if c.Deadline <= 0 {
		c.Deadline = defaultDeadline
	}
	return &Service{c}
}

// failed reports an SQL error to the observer and returns it.
func (s *Service) failed(err error) error {
	if err != nil && s.Observer != nil && budget.CodeOf(err).Kind() == budget.NotDone {
		s.Observer.Failed("sql", budget.CodeOf(err))
	}
	return err
}
