package console_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// budgets is how many budgets BenchmarkBudgets creates.
var budgets = flag.Int("budgets", 2000, "how many budgets a benchmark creates")

// BenchmarkBudgets measures a page of 50 budgets, as the view of budgets asks for it: by name, by
// each order, searched, and far from the beginning. It reports p50 and p99 in milliseconds.
func BenchmarkBudgets(b *testing.B) {
	for _, engine := range []string{"embedded", "mariadb"} {
		var environ []string
		if engine == "mariadb" {
			environ = []string{"BUDGETD_DATABASE_DRIVER=mysql",
				"BUDGETD_DATABASE_DSN=" + testservers.MariaDB(b).NewDatabase(b)}
		}
		s := serve(b, "", environ...)
		s.fill(*budgets)
		for _, query := range []struct{ name, path string }{
			{"list", "tenant=*&page_size=50"},
			{"name", "tenant=*&page_size=50&sort=name"},
			{"remaining", "tenant=*&page_size=50&sort=remaining"},
			{"used_share", "tenant=*&page_size=50&sort=-used_share"},
			{"end", "tenant=*&page_size=50&sort=end"},
			{"refusals", "tenant=*&page_size=50&sort=-refusals"},
			{"exhausted_at", "tenant=*&page_size=50&sort=exhausted_at"},
			{"search", "tenant=*&page_size=50&sort=name&q=77"},
			{"deep", fmt.Sprint("tenant=*&page_size=50&sort=name&skip=", *budgets-50)},
		} {
			b.Run(fmt.Sprintf("%s/%s", engine, query.name), func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					s.fetch("/v1/budgets?" + query.path)
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
				b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
				b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
			})
		}
		s.stop()
	}
}

// fill creates budgets, and waits until the server has seen all of them.
func (s *server) fill(n int) {
	s.t.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				s.must("POST", "/v1/budgets", fmt.Sprintf(`{"name":"campaign-%06d","unit":"count",
					"type":"promo","total_quantity":%d,"bucket_quantity":1}`, i, 1000+i))
			}
		})
	}
	began := time.Now()
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	s.t.Logf("%d budgets were created in %s", n, time.Since(began).Round(time.Second))
	for s.must("GET", "/v1/budgets?tenant=*&sort=name&page_size=1", "")["total"] != float64(n) {
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Logf("all were seen after %s", time.Since(began).Round(time.Second))
}

// fetch reads an answer as it is.
func (s *server) fetch(path string) {
	s.t.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatal(answer.Status, err)
	}
}
