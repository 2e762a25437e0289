package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestVoidOfOnePrincipal checks that a cancel below the role rollback voids an id for the caller's
// own deductions only: another principal's deduction takes the id, and the caller's own stays
// request_void before and after. A cancel of the role rollback voids it for everybody.
func TestVoidOfOnePrincipal(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { voidOfOne(newSecuredNode(t)) })
	t.Run("mariadb", func(t *testing.T) {
		voidOfOne(newSecuredNode(t, "BUDGETD_DATABASE_DRIVER=mysql",
			"BUDGETD_DATABASE_DSN="+testservers.SharedMariaDB(t).NewDatabase(t)))
	})
}

func voidOfOne(o *securedNode) {
	o.done(o.root, "POST", "/v1/budgets", `{"name":"sale","tenant":"shop","unit":"count","type":"promo",
		"total_quantity":100,"bucket_quantity":2}`, nil)
	keys := map[string]string{}
	for _, name := range []string{"ann", "bob", "cas", "rolf"} {
		role := "deduct"
		if name == "rolf" {
			role = "rollback"
		}
		keys[name] = o.issue(fmt.Sprintf(`{"principal":%q,"role":%q,"tenant":"shop"}`, name, role)).Token
	}
	o.follow()
	const (
		accepted = `200 "outcome":"accepted"`
		replayed = `200 "replayed":true`
		void     = `200 "state":"void"`
		isVoid   = `409 "request_void"`
	)
	for n, step := range []struct{ who, call, id, want string }{
		{"ann", "cancel", "a", void},
		{"ann", "deduct", "a", isVoid},
		{"bob", "confirm", "a", `404 "deduction_not_found"`},
		{"bob", "dry_run", "a", `200 "would_be_accepted"`},
		{"bob", "deduct", "a", accepted},
		{"bob", "deduct", "a", replayed},
		{"ann", "deduct", "a", isVoid},
		{"ann", "dry_run", "a", isVoid},
		{"ann", "batch", "a", isVoid},
		{"ann", "cancel", "a", void},
		{"cas", "cancel", "a", `403 "forbidden"`},
		{"bob", "cancel", "a", `200 "state":"rolled_back"`},
		{"bob", "deduct", "a", `409 "already_rolled_back"`},
		{"ann", "deduct", "a", isVoid},

		{"ann", "cancel", "two", void},
		{"cas", "cancel", "two", void},
		{"bob", "batch", "two", accepted},
		{"ann", "deduct", "two", isVoid},
		{"cas", "deduct", "two", isVoid},

		{"ann", "cancel", "all", void},
		{"rolf", "cancel", "all", void},
		{"bob", "deduct", "all", isVoid},
		{"ann", "cancel", "all", void},
		{"bob", "deduct", "all", isVoid},

		{"ann", "cancel", "big", void},
		{"bob", "too much", "big", `409 "budget_exhausted"`},
		{"ann", "too much", "big", isVoid},
		{"rolf", "rollback", "big", `404 "deduction_not_found"`},
		{"ann", "rollback", "big", isVoid},
		{"bob", "hold", "big", accepted},
		{"bob", "confirm", "big", `200 "state":"used"`},
	} {
		path, body := "/v1/budgets/sale/"+step.call, fmt.Sprintf(`{"request_id":%q}`, step.id)
		switch step.call {
		case "deduct":
			body = fmt.Sprintf(`{"request_id":%q,"amount":1}`, step.id)
		case "hold":
			path, body = "/v1/budgets/sale/deduct", fmt.Sprintf(`{"request_id":%q,"amount":1,"hold_ttl":"1h"}`, step.id)
		case "too much":
			path, body = "/v1/budgets/sale/deduct", fmt.Sprintf(`{"request_id":%q,"amount":1000}`, step.id)
		case "dry_run":
			path, body = "/v1/budgets/sale/deduct", fmt.Sprintf(`{"request_id":%q,"amount":1,"dry_run":true}`, step.id)
		case "batch":
			path, body = "/v1/deductions:batch", fmt.Sprintf(`{"deductions":[{"budget":"sale","request_id":"other-%d",
				"amount":1},{"budget":"sale","request_id":%q,"amount":1}]}`, n, step.id)
		}
		got := o.ask(keys[step.who], "POST", path, body)
		status, text, _ := strings.Cut(step.want, " ")
		last := got.text[strings.LastIndex(got.text, `{"request_id":"`+step.id)+1:]
		if step.call == "batch" {
			status = "200"
			_, last, _ = strings.Cut(got.text, "},{")
		}
		if fmt.Sprint(got.status) != status || !strings.Contains(last, text) {
			o.t.Errorf("step %d, %s %s %s: %d %s; want %s", n, step.who, step.call, step.id, got.status,
				got.text, step.want)
		}
	}
	audit := o.done(o.root, "GET", "/v1/budgets/sale/audit?tenant=shop", "", nil)
	if !strings.Contains(audit.text, `"ok":true`) || !strings.Contains(audit.text, `"used":4,`) {
		o.t.Error(audit.text)
	}
}
