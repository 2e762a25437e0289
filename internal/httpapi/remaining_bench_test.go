package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// BenchmarkRemaining measures the answer about 100 budgets, without a network.
func BenchmarkRemaining(b *testing.B) {
	gauges, left := shown{}, int64(123456)
	var names []string
	for i := range 100 {
		name := fmt.Sprint("shown-", i)
		names = append(names, name)
		gauges[bucket.BudgetRef{Tenant: "default", Name: name}] = &bucket.Gauge{Remaining: &left, Serving: bucket.ServesFully, AsOf: time.Now().UTC()}
	}
	api := httpapi.New(httpapi.Config{Service: new(fake), Gauges: gauges, Limits: limits})
	r := httptest.NewRequest("GET", "/v1/remaining?budget="+strings.Join(names, "&budget="), nil)
	for b.Loop() {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}
