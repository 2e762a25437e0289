package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/config"
)

// TestNamesOfZones gives names that are no zones wherever a zone can be given: names that depend on
// the machine, paths, other cases and files that are no zones. Each is refused with the field's name.
func TestNamesOfZones(t *testing.T) {
	o := newSecuredNode(t)
	budgetOf := `{"name":"%s","tenant":"shop","unit":"count","type":"daily","total_quantity":100,
		"type_rule":{"kind":"calendar","every":"day","quantity":5,"unused":"next"}%s}`
	limits := `"limits":[{"name":"l","dimension":"user","max":1,"measure":"count",
		"window":{"kind":"calendar","every":"day","timezone":%s}}]`
	o.done(o.root, "POST", "/v1/budgets", fmt.Sprintf(budgetOf, "known", `,"timezone":"Europe/Berlin"`), nil)
	o.done(o.root, "PATCH", "/v1/budgets/known?tenant=shop", `{"timezone":"Asia/Kolkata"}`, nil)
	o.done(o.root, "PATCH", "/v1/budgets/known?tenant=shop", "{"+fmt.Sprintf(limits, `"Asia/Kolkata"`)+"}", nil)
	before := o.done(o.root, "GET", "/v1/budgets/known?tenant=shop", "", nil).text
	if !strings.Contains(before, `"timezone":"Asia/Kolkata","late_refund"`) {
		t.Error(before)
	}
	for _, name := range []string{"", "Local", "local", "localtime", "posixrules", "right/UTC", "posix/UTC",
		"posix/Europe/Berlin", "utc", "UTC ", " UTC", "UTC/", "europe/berlin", "EUROPE/BERLIN",
		"Europe/Berlin/", "/Europe/Berlin", "Europe/", "Europe", "Europe/../UTC", "../etc/passwd",
		"/etc/localtime", "/usr/share/zoneinfo/UTC", "Europe\\Berlin", ".", "Factory", "leapseconds",
		"tzdata.zi", "zone.tab", "UTC+1", "+01:00", "CET-1CEST", ":UTC", "Mars/Olympus"} {
		zone := fmt.Sprintf("%q", name)
		for _, place := range []struct{ method, path, body, field string }{
			{"POST", "/v1/budgets", fmt.Sprintf(budgetOf, "new", `,"timezone":`+zone), "timezone"},
			{"POST", "/v1/budgets", fmt.Sprintf(budgetOf, "new", ","+fmt.Sprintf(limits, zone)),
				"limits[0].window.timezone"},
			{"PATCH", "/v1/budgets/known?tenant=shop", `{"timezone":` + zone + `}`, "timezone"},
			{"PATCH", "/v1/budgets/known?tenant=shop", "{" + fmt.Sprintf(limits, zone) + "}",
				"limits[0].window.timezone"},
		} {
			got := o.ask(o.root, place.method, place.path, place.body)
			if got.status != 422 || !strings.Contains(got.text, `"field":"`+place.field+`"`) {
				t.Errorf("%s in %s of %s: %d %s", zone, place.field, place.method, got.status, got.text)
			}
		}
		_, err := config.Load("", []string{"BUDGETD_RECYCLE_TIMEZONE=" + name})
		if err == nil || !strings.Contains(err.Error(), "BUDGETD_RECYCLE_TIMEZONE") {
			t.Errorf("%s in recycle.timezone: %v", zone, err)
		}
	}
	if after := o.done(o.root, "GET", "/v1/budgets/known?tenant=shop", "", nil).text; after != before {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}
