package access

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// Keys issues and ends API keys. It is safe for concurrent use.
type Keys struct {
	DB *engine.DB
	// PerTenant is the most live keys of a tenant.
	PerTenant int
}

// List reads at most limit keys after an id, by id, of a tenant or, if it is "", of all tenants.
// Error: Unavailable.
func (k *Keys) List(ctx context.Context, tenant, after string, limit int) (
	out []access.Key, err error) {
	err = k.DB.Read(ctx, "keys", func(r *engine.Reader) error {
		out, err = page(ctx, r.Plain(), tenant, after, limit)
		return err
	})
	return out, err
}

// Key reads a key. Errors: KeyNotFound, Unavailable.
func (k *Keys) Key(ctx context.Context, id string) (out access.Key, err error) {
	err = k.DB.Read(ctx, "keys", func(r *engine.Reader) error {
		out, err = one(ctx, r.Plain(), id)
		return err
	})
	return out, err
}

// Issue creates a key for a principal with a role, a scope and an expiry, and returns its token,
// which is not stored. Errors: TooManyKeys, Unavailable, OutcomeUnknown.
func (k *Keys) Issue(ctx context.Context, key access.Key) (access.Token, access.Key, error) {
	token, err := k.fresh(&key)
	if err == nil {
		err = k.DB.Write(ctx, "create key", func(t *engine.Tx) error {
			attestKey(ctx, key.ID, nil, textOf(&key))
			return createKey(ctx, t.Plain(), key, k.PerTenant)
		})
	}
	return token, key, err
}

// fresh gives a key its token.
func (k *Keys) fresh(key *access.Key) (access.Token, error) {
	token, err := access.NewToken(rand.Reader)
	key.ID, key.Hash, key.CreatedMS = token.ID(), token.Hash(), k.DB.Now().UnixMilli()
	return token, err
}

// keyText is a key in the audit log. ID is that of a Next only: the row's target is the other's.
type keyText struct {
	ID        string   `json:"id,omitempty"`
	Principal string   `json:"principal"`
	Role      string   `json:"role"`
	Tenant    string   `json:"tenant"`
	Budgets   []string `json:"budgets"`
	Subtree   int64    `json:"subtree,omitempty"`
	ExpiresMS int64    `json:"expires_ms"`
	RevokedMS int64    `json:"revoked_ms"`
	// Next is the key that was made in its place.
	Next *keyText `json:"next,omitempty"`
}

func textOf(k *access.Key) *keyText {
	return &keyText{Principal: k.Principal, Role: k.Role.String(), Tenant: k.Scope.Tenant,
		Budgets: append([]string{}, k.Scope.Budgets...), Subtree: k.Scope.Subtree, ExpiresMS: k.ExpiresMS,
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

// Rotate creates a key with the role and scope of another one, which ends after overlap. Errors:
// KeyNotFound, KeyNotLive, TooManyKeys, Unavailable, OutcomeUnknown.
func (k *Keys) Rotate(ctx context.Context, id string, by access.Key, overlap time.Duration) (
	token access.Token, made access.Key, err error) {
	fresh := by
	if token, err = k.fresh(&fresh); err != nil {
		return token, made, err
	}
	until := fresh.CreatedMS + overlap.Milliseconds()
	err = k.DB.Write(ctx, "rotate key", func(t *engine.Tx) error {
		done, err := rotate(ctx, t.Plain(), id, fresh, until, k.PerTenant)
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

// Revoke ends the validity of a key. Errors: KeyNotFound, Unavailable, OutcomeUnknown.
func (k *Keys) Revoke(ctx context.Context, id string) (out access.Key, err error) {
	err = k.DB.Write(ctx, "revoke key", func(t *engine.Tx) error {
		was, is, err := revoke(ctx, t.Plain(), id, t.Now.UnixMilli())
		if err != nil {
			return err
		}
		out = is
		attestKey(ctx, id, textOf(&was), textOf(&is))
		return nil
	})
	return out, err
}

// Prune removes keys that ended keep ago, at most 1,000 at a time. Errors: Unavailable,
// OutcomeUnknown.
func (k *Keys) Prune(ctx context.Context, keep time.Duration) error {
	none := errors.New("no key has ended long ago")
	err := k.DB.Write(ctx, "remove keys", func(t *engine.Tx) error {
		now := t.Now.UnixMilli()
		n, err := remove(ctx, t.Plain(), now-keep.Milliseconds())
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

// First stores a token as the key of the first administrator if there are no keys. It reports
// whether it did. Errors: Unavailable, OutcomeUnknown.
func (k *Keys) First(ctx context.Context, token access.Token,
	source string) (made bool, err error) {
	key := access.Key{ID: token.ID(), Hash: token.Hash(), Principal: access.FirstPrincipal,
		Role: access.Admin, CreatedMS: k.DB.Now().UnixMilli(), CreatedBy: source}
	entry := auditlog.NewEntry(auditlog.Row{AtMS: key.CreatedMS, Principal: source, Op: "create key"})
	ctx = auditlog.NewContext(ctx, entry)
	nothing := errors.New("there are keys")
	err = k.DB.Write(ctx, "first key", func(t *engine.Tx) error {
		attestKey(ctx, key.ID, nil, textOf(&key))
		made, err = createFirst(ctx, t.Plain(), key)
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

// Follow returns the loop that keeps a book equal to the database. keep is how long the book
// remembers keys that have ended.
func (k *Keys) Follow(book *access.Book, keep time.Duration, log *slog.Logger) func(
	context.Context) error {
	f := &follower{Book: book, Log: log, Now: time.Now, Keep: keep,
		Note: func(ctx context.Context, used map[string]int64) error {
			return k.DB.Write(ctx, "use of keys", func(t *engine.Tx) error {
				return noteUse(ctx, t.Plain(), used)
			})
		}}
	return func(ctx context.Context) error {
		return k.DB.Read(ctx, "keys", func(r *engine.Reader) error {
			f.DB = r.Plain()
			return f.RunOnce(ctx)
		})
	}
}
