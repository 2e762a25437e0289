package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestUntrustedNetwork follows docs/SECURITY.md: two nodes with TLS, mutual TLS to MariaDB and to
// three Redis with ACL users, the first key by `budgetd keys bootstrap`, and keys of five roles and
// two tenants. It then replaces every secret under load.
func TestUntrustedNetwork(t *testing.T) {
	w := newSecureWorld(t)
	root := w.bootstrap()
	nodes := []*node{w.start(), w.start()}
	keys := w.keys(nodes[0], root)
	t.Run("roles and tenants", func(t *testing.T) { w.roles(t, nodes, keys) })
	t.Run("main path", func(t *testing.T) { w.mainPath(t, w.client(nodes[1], keys["admin"])) })
	t.Run("rotation", func(t *testing.T) { w.rotation(t, nodes, keys["admin"]) })
	t.Run("client certificates", func(t *testing.T) { w.mapped(t, nodes[0], keys["read"]) })
	t.Run("secrets", func(t *testing.T) { w.shown(t, nodes, root, keys) })
}

// keys creates a key of every role in tenant shop, and one of another tenant. It creates the key of
// role deduct with budgetctl.
func (w *secureWorld) keys(n *node, root string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	c := w.client(n, root)
	for name, tenant := range map[string]string{"read": "shop", "rollback": "shop", "operator": "shop", "admin": "shop",
		"foreign": "other"} {
		role := name
		if name == "foreign" {
			role = "admin"
		}
		made, err := c.CreateKey(context.Background(), client.KeyRequest{Principal: name, Role: role, Tenant: tenant})
		must(w.t, err)
		out[name] = made.Token
	}
	cmd := exec.Command(testservers.Program(w.t, "budgetctl"), "keys", "create", "till-7", "--role", "deduct", "--tenant", "shop",
		"--server", "https://"+n.addr, "--ca-file", w.file("ca.pem"))
	cmd.Env = append(os.Environ(), "BUDGETCTL_TOKEN="+root)
	text, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("budgetctl: %v\n%s", err, text)
	}
	out["deduct"] = regexp.MustCompile(`bdg_\w+`).FindString(string(text))
	return out
}

// roles checks that each key may make the calls of its role and of lower ones, and none on another
// tenant's budgets.
func (w *secureWorld) roles(t *testing.T, nodes []*node, keys map[string]string) {
	ctx := context.Background()
	for _, n := range nodes {
		for name, key := range keys {
			eventually(t, 10*time.Second, "the node knows the key "+name, func() error {
				_, err := w.client(n, key).Whoami(ctx)
				return err
			})
		}
	}
	admin := w.client(nodes[0], keys["admin"], client.WithTenant("shop"))
	_, err := admin.Create(ctx, client.CreateRequest{Name: "sale", Tenant: "shop", Unit: budget.Count, Type: budget.Promo,
		TotalQuantity: 100_000, BucketQuantity: 6})
	must(t, err)
	_, err = admin.Deduct(ctx, "sale", client.DeductRequest{RequestID: "admins", Amount: 9})
	must(t, err)
	calls := []struct {
		role string
		do   func(c *client.Client, by string) error
	}{
		{"read", func(c *client.Client, _ string) error { _, err := c.Budget(ctx, "sale"); return err }},
		{"deduct", func(c *client.Client, by string) error {
			_, err := c.Deduct(ctx, "sale", client.DeductRequest{RequestID: by, Amount: 1})
			return err
		}},
		{"rollback", func(c *client.Client, by string) error {
			_, err := c.Rollback(ctx, "sale", client.RollbackRequest{RequestID: "admins", RollbackID: by, Amount: 1})
			return err
		}},
		{"operator", func(c *client.Client, by string) error {
			_, err := c.Append(ctx, "sale", client.AppendRequest{RequestID: by, Quantity: 1})
			return err
		}},
		{"admin", func(c *client.Client, by string) error {
			_, err := c.Create(ctx, client.CreateRequest{Name: "by-" + by, Unit: budget.Count, Type: budget.Promo,
				TotalQuantity: 1})
			return err
		}},
	}
	for i, role := range []string{"read", "deduct", "rollback", "operator", "admin"} {
		for k, n := range nodes {
			c := w.client(n, keys[role], client.WithTenant("shop"))
			for j, call := range calls {
				err := call.do(c, fmt.Sprintf("%s-%d", role, k))
				if j <= i && err != nil || j > i && problem(err).Code != budget.Forbidden {
					t.Errorf("key of role %s on node %d, call for role %s: %v", role, k, call.role, err)
				}
			}
		}
	}
	for _, n := range nodes {
		for key, want := range map[string]budget.Code{keys["foreign"]: budget.BudgetNotFound, "": budget.Unauthenticated} {
			c := w.client(n, key, client.WithTenant("shop"))
			_, read := c.Budget(ctx, "sale")
			_, deducted := c.Deduct(ctx, "sale", client.DeductRequest{RequestID: "stranger", Amount: 1})
			for what, err := range map[string]error{"reads": read, "deducts": deducted} {
				if problem(err).Code != want {
					t.Errorf("a stranger %s: want %s: %v", what, want, err)
				}
			}
		}
	}
}

// mainPath creates a budget, deducts, rolls back, appends, recycles, and takes a bucket offline and
// online, in both modes, with no more than the documented rights.
func (w *secureWorld) mainPath(t *testing.T, c *client.Client) {
	ctx := context.Background()
	for _, mode := range []budget.Durability{budget.Ledger, budget.Store} {
		name := "path-" + string(mode)
		eventually(t, time.Minute, "a budget is created", func() error {
			_, err := c.Create(ctx, client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo,
				TotalQuantity: 1000, BucketQuantity: 6, Durability: mode})
			return err
		})
		var first *client.DeductAnswer
		eventually(t, time.Minute, "units are deducted", func() (err error) {
			first, err = c.Deduct(ctx, name, client.DeductRequest{RequestID: "one", Key: "k", Amount: 5})
			return err
		})
		_, err := c.Rollback(ctx, name, client.RollbackRequest{RequestID: "one", RollbackID: "back", Amount: 2, Receipt: first.Receipt})
		must(t, err)
		_, err = c.Append(ctx, name, client.AppendRequest{RequestID: "more", Quantity: 100})
		must(t, err)
		_, err = c.Recycle(ctx, name)
		must(t, err)
		_, err = c.Offline(ctx, name, name+":bucket-5")
		must(t, err)
		_, err = c.Online(ctx, name, name+":bucket-5")
		must(t, err)
		checkBooks(t, c, name, 1100, 3)
	}
}

// rotation replaces the password of every Redis, the user of the database and the certificate of
// the nodes while callers deduct. No call may fail.
func (w *secureWorld) rotation(t *testing.T, nodes []*node, key string) {
	ctx := context.Background()
	c := w.client(nodes[0], key)
	create(t, c, "busy", 1_000_000, 6)
	_, err := c.Create(ctx, client.CreateRequest{Name: "stored", Unit: budget.Count, Type: budget.Promo,
		TotalQuantity: 1_000_000, BucketQuantity: 6, Durability: budget.Store})
	must(t, err)
	var accepted, stored, failed atomic.Int64
	stop, all := make(chan struct{}), sync.WaitGroup{}
	for caller := range 8 {
		c, name, mine := w.client(nodes[caller%2], key), "busy", &accepted
		if caller >= 4 {
			name, mine = "stored", &stored // store mode needs its Redis for each request
		}
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				_, err := c.Deduct(ctx, name, client.DeductRequest{RequestID: fmt.Sprint(caller, "-", i), Amount: 1})
				if err != nil {
					failed.Add(1)
					t.Errorf("caller %d, request %d: %v", caller, i, err)
					return
				}
				mine.Add(1)
			}
		})
	}
	more := func(what string) {
		t.Helper()
		before, held := accepted.Load(), stored.Load()
		eventually(t, 2*time.Minute, what, func() error {
			if (accepted.Load() < before+100 || stored.Load() < held+100) && failed.Load() == 0 {
				return errors.New("the callers make no progress")
			}
			return nil
		})
	}
	more("they deduct")
	w.acl("ACL", "SETUSER", "budgetd", ">NEXT-WORD") // both passwords are valid
	w.write(w.password, "NEXT-WORD")
	w.acl("ACL", "SETUSER", "budgetd", "<PASSWORD")
	w.acl("CLIENT", "KILL", "USER", "budgetd")
	more("after the password of Redis")
	w.user("budgetd2", "NEXT-WORD") // both users exist
	w.write(w.dsn, "budgetd2:NEXT-WORD"+w.base)
	w.sql("DROP USER budgetd@'%'", "KILL USER budgetd")
	more("after the user of the database")
	w.sign("node", false)
	for _, n := range nodes {
		eventually(t, time.Minute, "the new certificate is used", func() error {
			conn, err := tls.Dial("tcp", n.addr, w.transport().TLSClientConfig)
			if err != nil {
				return err
			}
			defer conn.Close()
			if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != w.serial {
				return fmt.Errorf("serial %d, want %d", got, w.serial)
			}
			return nil
		})
	}
	more("after the certificate")
	close(stop)
	all.Wait()
	checkBooks(t, c, "busy", 1_000_000, accepted.Load())
	checkBooks(t, c, "stored", 1_000_000, stored.Load())
	t.Logf("%d deductions in ledger mode, %d in store mode, %d failed", accepted.Load(), stored.Load(), failed.Load())
}
