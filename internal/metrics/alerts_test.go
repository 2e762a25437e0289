package metrics_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
)

const (
	alertsFile  = "../../deploy/prometheus/alerts.yml"
	alertsTests = "../../deploy/prometheus/alerts_test.yml"
	runbook     = "../../docs/OPERATIONS.md"
)

// rule is an alert rule as Prometheus reads it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

var (
	ours    = regexp.MustCompile(`budgetd_[a-z_]+`)
	matcher = regexp.MustCompile(`(budgetd_[a-z_]+)\{([^}]*)\}`)
	label   = regexp.MustCompile(`([a-z_]+)=~?"`)
)

// TestAlerts checks that every rule uses existing metrics and labels, is tested, and has an entry in
// the runbook; and that Prometheus's own tool accepts the rules and sees each one fire.
func TestAlerts(t *testing.T) {
	labels := known(t)
	tests := read(t, alertsTests)
	entries := map[string]bool{}
	_, part, _ := strings.Cut(read(t, runbook), "\n## What to do when\n")
	part, _, _ = strings.Cut(part, "\n## ")
	for _, head := range entry.FindAllString(part, -1) {
		for _, name := range alertName.FindAllString(head, -1) {
			entries[name] = true
		}
	}
	for _, r := range alerts(t) {
		if !entries[r.Alert] {
			t.Errorf("%s has no entry in %s", r.Alert, runbook)
		}
		delete(entries, r.Alert)
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s: no severity or no summary", r.Alert)
		}
		if !strings.Contains(tests, "alertname: "+r.Alert+"\n") {
			t.Errorf("%s: no test in %s makes it fire", r.Alert, alertsTests)
		}
		found := ours.FindAllString(r.Expr, -1)
		if len(found) == 0 {
			t.Errorf("%s uses no metric of budgetd", r.Alert)
		}
		for _, name := range found {
			if labels[name] == nil {
				t.Errorf("%s: there is no metric %s", r.Alert, name)
			}
		}
		for _, m := range matcher.FindAllStringSubmatch(r.Expr, -1) {
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if !labels[m[1]][l[1]] {
					t.Errorf("%s: %s has no label %s", r.Alert, m[1], l[1])
				}
			}
		}
	}
	for name := range entries {
		t.Errorf("%s has an entry for %s, which no rule raises", runbook, name)
	}
	promtool(t, "", "check", "rules", alertsFile)
	promtool(t, "", "test", "rules", alertsTests)
}

// entry matches the head of a runbook entry: the names of its alerts, in bold.
var (
	entry     = regexp.MustCompile(`(?m)^\*\*Budgetd[^*]*\*\*`)
	alertName = regexp.MustCompile(`Budgetd[A-Za-z]+`)
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func alerts(t *testing.T) (rules []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(read(t, alertsFile)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		if g.Name == "" || len(g.Rules) == 0 {
			t.Errorf("group %q has %d rules", g.Name, len(g.Rules))
		}
		rules = append(rules, g.Rules...)
	}
	return rules
}

// known returns every metric with its labels.
func known(t *testing.T) map[string]map[string]bool {
	t.Helper()
	m := metrics.New("v1.2.3")
	m.Request("POST /v1/budgets/{budget}/deduct", 200, time.Millisecond, "")
	m.Failed("sql", budget.Unavailable)
	m.PartitionCall(t.Context(), bucket.Partition{Instance: "redis-a"}, 1, time.Millisecond)
	m.Scripts(bucket.Partition{Instance: "redis-a"}, 1)
	everything(m)
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]bool{}
	for _, f := range families {
		labels := map[string]bool{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[l.GetName()] = true
		}
		out[f.GetName()] = labels
		out[f.GetName()+"_bucket"] = labels // of a histogram, as Prometheus stores it
	}
	return out
}
