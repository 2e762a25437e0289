package metrics_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
)

const alertsFile = "../../examples/prometheus-alerts.yml"

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

// TestAlerts checks that every example rule is valid and uses existing metrics and labels.
func TestAlerts(t *testing.T) {
	labels := known(t)
	rules := alerts(t)
	if len(rules) < 10 {
		t.Errorf("only %d rules", len(rules))
	}
	names := map[string]bool{}
	for _, r := range rules {
		if !strings.HasPrefix(r.Alert, "Budgetd") || names[r.Alert] {
			t.Errorf("%q is no name of its own", r.Alert)
		}
		names[r.Alert] = true
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s: no severity or no summary", r.Alert)
		}
		if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		found := ours.FindAllString(r.Expr, -1)
		if len(found) == 0 {
			t.Errorf("%s asks for nothing of budgetd", r.Alert)
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
		if strings.Count(r.Expr, "(") != strings.Count(r.Expr, ")") {
			t.Errorf("%s: parentheses in %s", r.Alert, r.Expr)
		}
	}
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed: the rules were checked by this test only")
		return
	}
	if out, err := exec.Command(path, "check", "rules", alertsFile).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

func alerts(t *testing.T) (rules []rule) {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
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

// known is every metric with its labels.
func known(t *testing.T) map[string]map[string]bool {
	t.Helper()
	m := metrics.New("v1.2.3")
	m.Failed("sql", budget.Unavailable)
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
	}
	return out
}
