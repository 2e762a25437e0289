package daemon

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/secret"
	"github.com/budgetd/budgetd/internal/sqlstore/definitions"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/keys"
)

var (
	_ httpapi.Keys     = (*apiKeys)(nil)
	_ httpapi.Names    = (*names)(nil)
	_ httpapi.AuditLog = (*auditLog)(nil)
)

// apiKeys issues and ends API keys.
type apiKeys struct {
	db *engine.DB
	// perTenant is the most live keys of a tenant.
	perTenant int
}

// List reads a page of keys.
func (k *apiKeys) List(ctx context.Context, tenant, after string, limit int) (
	out []access.Key, err error) {
	err = k.db.Read(ctx, "keys", func(r *engine.Reader) error {
		out, err = keys.Page(ctx, r.Plain(), tenant, after, limit)
		return err
	})
	return out, err
}

// Key reads a key.
func (k *apiKeys) Key(ctx context.Context, id string) (out access.Key, err error) {
	err = k.db.Read(ctx, "keys", func(r *engine.Reader) error {
		out, err = keys.One(ctx, r.Plain(), id)
		return err
	})
	return out, err
}

// Issue makes a key.
func (k *apiKeys) Issue(ctx context.Context, key access.Key) (access.Token, access.Key, error) {
	token, err := k.fresh(&key)
	if err == nil {
		err = k.db.Write(ctx, "create key", func(t *engine.Tx) error {
			attestKey(ctx, key.ID, nil, textOf(&key))
			return keys.Create(ctx, t.Plain(), key, k.perTenant)
		})
	}
	return token, key, err
}

// fresh gives a key its token.
func (k *apiKeys) fresh(key *access.Key) (access.Token, error) {
	token, err := access.NewToken(rand.Reader)
	key.ID, key.Hash, key.CreatedMS = token.ID(), token.Hash(), k.db.Now().UnixMilli()
	return token, err
}

// keyText is a key in the audit log. ID is that of a Next only: the row's target is the other's.
type keyText struct {
	ID        string   `json:"id,omitempty"`
	Principal string   `json:"principal"`
	Role      string   `json:"role"`
	Tenant    string   `json:"tenant"`
	Budgets   []string `json:"budgets"`
	ExpiresMS int64    `json:"expires_ms"`
	RevokedMS int64    `json:"revoked_ms"`
	// Next is the key that was made in its place.
	Next *keyText `json:"next,omitempty"`
}

func textOf(k *access.Key) *keyText {
	return &keyText{Principal: k.Principal, Role: k.Role.String(), Tenant: k.Scope.Tenant,
		Budgets: append([]string{}, k.Scope.Budgets...), ExpiresMS: k.ExpiresMS,
		RevokedMS: k.RevokedMS}
}

// attestKey records a key before and after a change for the audit log. was is nil for a new key.
func attestKey(ctx context.Context, id string, was, is *keyText) {
	var before []byte
	if was != nil {
		before, _ = json.Marshal(was) // texts and numbers have a JSON form
	}
	after, _ := json.Marshal(is)
	auditlog.FromContext(ctx).Change(is.Tenant, id, before, after)
}

// Rotate creates a key with the role and scope of another one, which then ends.
func (k *apiKeys) Rotate(ctx context.Context, id string, by access.Key, overlap time.Duration) (
	token access.Token, made access.Key, err error) {
	fresh := by
	if token, err = k.fresh(&fresh); err != nil {
		return token, made, err
	}
	until := fresh.CreatedMS + overlap.Milliseconds()
	err = k.db.Write(ctx, "rotate key", func(t *engine.Tx) error {
		done, err := keys.Rotate(ctx, t.Plain(), id, fresh, until, k.perTenant)
		if err != nil {
			return err
		}
		is := textOf(&done.Is)
		is.Next, made = textOf(&done.Next), done.Next
		is.Next.ID = made.ID
		attestKey(ctx, id, textOf(&done.Was), is)
		return nil
	})
	return token, made, err
}

// Revoke revokes a key.
func (k *apiKeys) Revoke(ctx context.Context, id string) (out access.Key, err error) {
	err = k.db.Write(ctx, "revoke key", func(t *engine.Tx) error {
		was, is, err := keys.Revoke(ctx, t.Plain(), id, t.Now.UnixMilli())
		if err != nil {
			return err
		}
		out = is
		attestKey(ctx, id, textOf(&was), textOf(&is))
		return nil
	})
	return out, err
}

// prune removes keys that ended keep ago, at most 1,000 at a time.
func (k *apiKeys) prune(ctx context.Context, keep time.Duration) error {
	none := errors.New("no key has ended long ago")
	err := k.db.Write(ctx, "remove keys", func(t *engine.Tx) error {
		now := t.Now.UnixMilli()
		n, err := keys.Remove(ctx, t.Plain(), now-keep.Milliseconds())
		if err != nil {
			return err
		}
		if n == 0 {
			return none // leaves no row in the audit log
		}
		return t.Attest(auditlog.Row{AtMS: now, Principal: "budgetd", Op: "remove keys",
			Target: strconv.Itoa(n), Outcome: auditlog.Done})
	})
	if errors.Is(err, none) {
		return nil
	}
	return err
}

// first stores a token as the key of the first administrator if there are no keys. It reports
// whether it did.
func (k *apiKeys) first(ctx context.Context, token access.Token,
	source string) (made bool, err error) {
	key := access.Key{ID: token.ID(), Hash: token.Hash(), Principal: access.FirstPrincipal,
		Role: access.Admin, CreatedMS: k.db.Now().UnixMilli(), CreatedBy: source}
	entry := auditlog.NewEntry(auditlog.Row{AtMS: key.CreatedMS, Principal: source, Op: "create key"})
	ctx = auditlog.NewContext(ctx, entry)
	nothing := errors.New("there are keys")
	err = k.db.Write(ctx, "first key", func(t *engine.Tx) error {
		attestKey(ctx, key.ID, nil, textOf(&key))
		made, err = keys.CreateFirst(ctx, t.Plain(), key)
		if err == nil && !made {
			return nothing // leaves no row in the audit log
		}
		return err
	})
	if errors.Is(err, nothing) {
		return false, nil
	}
	return made, err
}

// firstFromFile stores the key in keys.first_admin_file if there are no keys.
func (k *apiKeys) firstFromFile(ctx context.Context, file string, log *slog.Logger) error {
	if file == "" {
		return nil
	}
	source, err := secret.File(file)
	if err != nil {
		return fmt.Errorf("keys.first_admin_file: %w", err)
	}
	token, why := access.ParseToken(source.Now().Reveal())
	if why != access.Accepted {
		return fmt.Errorf("keys.first_admin_file: %s", why.Message())
	}
	made, err := k.first(ctx, token, "keys.first_admin_file")
	if made {
		log.Info("the key of the first administrator is kept", "key", token.ID(), "file", file)
	}
	return err
}

// names resolves budgets that callers name by id.
type names struct {
	definitions *definitions.Part
	budgets     *bucket.Budgets
}

// Belongs reports whether a tenant has a budget with an id.
func (n *names) Belongs(ctx context.Context, tenant string, id int64) (bool, error) {
	return n.definitions.Belongs(ctx, tenant, id)
}

// NameOf returns the name of a budget.
func (n *names) NameOf(ctx context.Context, ref bucket.BudgetRef) (string, error) {
	b, err := n.budgets.Find(ctx, ref)
	if err != nil {
		return "", err
	}
	return b.Name, nil
}

// auditLog reads and writes the audit log.
type auditLog struct {
	db       *engine.DB
	refusals *auditlog.Refusals
	keep     time.Duration
}

// Append adds a row in a transaction of its own.
func (l *auditLog) Append(ctx context.Context, row auditlog.Row) error {
	return l.db.Attest(ctx, row)
}

// Read reads a page.
func (l *auditLog) Read(ctx context.Context,
	q httpapi.AuditQuery) (page httpapi.AuditPage, err error) {
	query := auditlog.Query{After: q.After, Before: q.Before, Principal: q.Principal,
		Tenant: q.Tenant, Op: q.Op, NewestFirst: q.NewestFirst, Limit: q.Limit}
	if !q.From.IsZero() {
		query.FromMS = q.From.UnixMilli()
	}
	if !q.To.IsZero() {
		query.ToMS = q.To.UnixMilli()
	}
	err = l.db.Snapshot(ctx, "audit log", func(r *engine.Reader) error {
		if page.Head, page.Removed, err = auditlog.Ends(ctx, r.Plain()); err != nil {
			return err
		}
		page.Rows, err = auditlog.Read(ctx, r.Plain(), query)
		return err
	})
	return page, err
}

// noteRefusals appends the row of the refusals that wait longest: one at most, so that a flood of
// refusals costs no more than one link of the chain per call.
func (l *auditLog) noteRefusals(ctx context.Context) error {
	row, found := l.refusals.Take()
	if !found {
		return nil
	}
	err := l.db.Attest(ctx, row)
	if err != nil {
		l.refusals.Return(row)
	}
	return err
}

// prune removes rows that are older than audit_log.keep, at most 1,000 at a time.
func (l *auditLog) prune(ctx context.Context) error {
	if l.keep == 0 {
		return nil
	}
	return l.db.Write(ctx, "prune the audit log", func(t *engine.Tx) error {
		now := t.Now.UnixMilli()
		return t.PruneAuditLog(now-l.keep.Milliseconds(), auditlog.Row{AtMS: now, Principal: "budgetd"})
	})
}

// follow returns a book of keys and the loop that keeps it equal to the database.
func follow(db *engine.DB, c config.Keys, log *slog.Logger) (*access.Book,
	func(context.Context) error) {
	book := access.NewBook(c.StaleAfter.Milliseconds())
	f := &keys.Follower{Book: book, Log: log, Now: time.Now, Keep: c.Keep,
		Note: func(ctx context.Context, used map[string]int64) error {
			return db.Write(ctx, "use of keys", func(t *engine.Tx) error {
				return keys.NoteUse(ctx, t.Plain(), used)
			})
		}}
	return book, func(ctx context.Context) error {
		return db.Read(ctx, "keys", func(r *engine.Reader) error {
			f.DB = r.Plain()
			return f.RunOnce(ctx)
		})
	}
}
