package audit

import "context"

// ReadAccounts reads a budget's accounts.
func (s *Service) ReadAccounts(ctx context.Context, id int64) (Accounts, error) {
	return s.readAccounts(ctx, id)
}

// SeeAccounts calls back with all accounts that are read from now on. It may change them.
func (s *Service) SeeAccounts(seen func(a *Accounts)) {
	s.accounts = func(ctx context.Context, id int64) (Accounts, error) {
		a, err := s.readAccounts(ctx, id)
		if err == nil {
			seen(&a)
		}
		return a, err
	}
}
