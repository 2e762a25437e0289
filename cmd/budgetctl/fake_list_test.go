package main

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// list answers pages of one budget.
func (f *fake) list(r *http.Request) (int, any) {
	query := r.URL.Query()
	var names []string
	for key, b := range f.budgets {
		tenant := query.Get("tenant")
		if tenant == "" {
			tenant = budget.DefaultTenant
		}
		if strings.HasPrefix(key, tenant+"/") &&
			(query.Get("status") == "" || query.Get("status") == string(b.Status)) &&
			strings.Contains(b.Name, query.Get("q")) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	page := client.Page{}
	if query.Has("q") || query.Has("sort") {
		return 200, f.ranking(names, query)
	}
	for _, name := range names {
		if name <= query.Get("page_token") {
			continue
		}
		if len(page.Budgets) == 1 {
			page.NextPageToken = page.Budgets[0].Tenant + "/" + page.Budgets[0].Name
			break
		}
		page.Budgets = append(page.Budgets, f.budgets[name].Budget)
	}
	return 200, page
}

// ranking answers with all budgets in the reverse order of names. Each budget was refused three
// times and will be used up a day after the first instant of the year.
func (f *fake) ranking(names []string, query url.Values) client.Page {
	slices.Reverse(names)
	total, refusals := len(names), 3
	page := client.Page{Total: &total}
	for _, name := range names {
		b := f.budgets[name].Budget
		b.ExhaustedAt = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
		if query.Get("sort") == "-refusals" {
			b.Refusals = &refusals
		}
		page.Budgets = append(page.Budgets, b)
	}
	return page
}
