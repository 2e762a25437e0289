package console_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An operator sees which budget needs attention and who is told, tries the endpoint, and sees why the
// alert is resolved.
func TestAlertsView(t *testing.T) {
	secrets := t.TempDir()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	if err := os.WriteFile(filepath.Join(secrets, "shop"), []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("webhook-id")
	}))
	t.Cleanup(receiver.Close)
	s := serve(t, fmt.Sprintf("webhooks:\n  secrets_dir: %q\n  allow: [127.0.0.0/8]\n", secrets))
	hook := s.must("POST", "/v1/webhooks", `{"url":"`+receiver.URL+`","secret":"shop"}`)["id"].(string)
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo","total_quantity":1000}`)
	s.must("PUT", "/v1/budgets/spring-sale/thresholds", `{"thresholds":[{"kind":"used_share","of":"total","percent":80},
		{"kind":"used_share","of":"total","percent":95}]}`)
	page := open(t, s.url+"/")
	page.sees("Alerts that fire", "Nothing needs attention.")
	s.must("POST", "/v1/budgets/spring-sale/deduct", `{"request_id":"o1","amount":960}`)
	page.sees("used_share/total/95", "used_share/total/80")
	page.clicks("link", "All alerts")
	page.until("two rows", `document.querySelectorAll('tbody tr').length >= 3`)
	rows := page.rows("Alerts")
	if len(rows) != 2 || rows[0][0] != "spring-sale" || !strings.HasPrefix(rows[0][1], "used_share/total/80 told with") ||
		rows[1][1] != "used_share/total/95" || rows[1][2] != "firing" || rows[1][4] != "960 96%" || rows[1][5] != "40" {
		t.Errorf("alerts: %q", rows)
	}
	page.picture("alerts")
	<-got // the alert's message
	page.clicks("button", "Test "+hook)
	page.clicks("button", "Send it")
	page.sees("is on its way")
	if id := <-got; !strings.Contains(page.text(), id) {
		t.Errorf("the page does not show %s:\n%s", id, page.text())
	}
	page.clicks("button", "Close")
	page.clicks("button", "Disable "+hook)
	page.sees("What is on its way to it is not sent any more.")
	page.clicks("button", "Disable it")
	page.sees("The endpoint is disabled.")
	page.clicks("button", "Close")
	page.sees("disabled: operator")
	s.must("POST", "/v1/budgets/spring-sale/append", `{"request_id":"a1","quantity":1000}`)
	page.sees("Nothing needs attention.")
	page.chooses("State", "resolved")
	page.sees("total_raised", "used_share/total/95")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}
