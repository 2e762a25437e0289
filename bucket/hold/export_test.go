package hold

import "context"

// Through lets a test see and replace the transactions of a service.
func (s *Service) Through(through func(ctx context.Context, orders []Order,
	execute func(context.Context, []Order) ([]Result, error)) ([]Result, error)) {
	execute := s.ledger.Execute
	s.execute = func(ctx context.Context, orders []Order) ([]Result, error) {
		return through(ctx, orders, execute)
	}
}

// Through replaces the transactions of an expiry.
func (e *Expiry) Through(expire func(ctx context.Context, limit, skip int) (Expired, error)) {
	e.expire = expire
}
