package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestBench runs `budgetctl bench` against a real budgetd: with single calls, in batches, at a
// fixed rate, under limits and beyond the sell-out. Its own check must succeed.
func TestBench(t *testing.T) {
	ctl := testservers.Program(t, "budgetctl")
	n := start(t, t.TempDir())
	tests := []struct {
		name string
		args []string
		want map[string]bool // outcomes that must occur
	}{
		{"singles", []string{"--calls", "300", "--rollback-share", "0.1", "--repeat-share", "0.1"},
			map[string]bool{"accepted": true, "replayed": true, "rolled_back": true}},
		{"batches", []string{"--calls", "20", "--batch", "20", "--repeat-share", "0.1"},
			map[string]bool{"accepted": true, "replayed": true}},
		{"rate", []string{"--calls", "100", "--rate", "200"}, map[string]bool{"accepted": true}},
		{"limits", []string{"--calls", "200", "--users", "20",
			"--limit", "name=per-user,dimension=user,window=lifetime,max=5"},
			map[string]bool{"accepted": true, "limit_exceeded": true}},
		{"sold-out", []string{"--calls", "200", "--total", "100", "--repeat-share", "0.2"},
			map[string]bool{"accepted": true, "replayed": true, "budget_exhausted": true}},
		{"many", []string{"--calls", "100", "--budgets", "3", "--buckets", "1"}, map[string]bool{"accepted": true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"bench", "bench-" + test.name, "--create", "--server", "http://" + n.addr,
				"--connections", "8", "--warmup", "0s", "--settle", "60s", "-o", "json",
				"--pid", fmt.Sprintf("budgetd=%d", n.cmd.Process.Pid)}, test.args...)
			out, err := exec.Command(ctl, args...).Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var report struct {
				Answers   map[string]int64
				Processes []struct{ Name string }
				Check     struct {
					OK        bool  `json:"ok"`
					ToldUnits int64 `json:"told_units"`
				}
			}
			if err := json.Unmarshal(out, &report); err != nil {
				t.Fatal(err)
			}
			for answer := range test.want {
				if report.Answers[answer] == 0 {
					t.Errorf("no outcome %s in %v", answer, report.Answers)
				}
			}
			if !report.Check.OK || report.Check.ToldUnits == 0 || len(report.Processes) != 2 {
				t.Errorf("%s", out)
			}
		})
	}
}
