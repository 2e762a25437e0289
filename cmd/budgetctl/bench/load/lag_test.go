package load

import (
	"strings"
	"testing"
)

func TestReadLag(t *testing.T) {
	const page = `# HELP budgetd_log_lag_entries x
budgetd_log_lag_entries{instance="a",lane="0"} 12
budgetd_log_lag_entries{instance="b",lane="0"} 3
budgetd_log_lag_seconds{instance="a",lane="0"} 0.5
budgetd_log_lag_seconds{instance="b",lane="0"} 1.5
budgetd_log_lag_entries_total 99
`
	got, err := ReadLag(strings.NewReader(page))
	if want := (Lag{15, 1.5}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := ReadLag(strings.NewReader("budgetd_log_lag_entries many\n")); err == nil {
		t.Error("what is no number was read")
	}
	if _, err := ReadLag(strings.NewReader("budgetd_up 1\n")); err == nil {
		t.Error("a page without a lag has one")
	}
}
