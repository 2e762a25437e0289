package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLogIsForPeople checks that the first line says what runs where, that durations are text, that
// the id of a budget comes with its name, that every line names the node, and that administrative
// calls are logged.
func TestLogIsForPeople(t *testing.T) {
	file := filepath.Join(t.TempDir(), "budgetd.yaml")
	text := "node: {name: till-1}\nlog: {format: json}\nstop: {notice: 50ms}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, []string{"--config", file})
	wait := func(parts ...string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			for line := range strings.Lines(p.log.String()) {
				all := true
				for _, part := range append(parts, `"node":"till-1"`) {
					all = all && strings.Contains(line, part)
				}
				if all {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("no line with %v", parts)
			}
		}
	}
	wait(`"msg":"listening"`, `"version":"`, `"commit":"`, `"database":"sqlite /`, `"instances":""`,
		`"listener":"listen"`, `"data":"/`, `"config":"`+file)
	p.url = "http://" + between(p.log.String(), `"addr":"`, `"`)
	p.create("sale")
	wait(`"msg":"administrative call"`, `"op":"create"`, `"target":"sale"`, `"outcome":"done"`)
	if status, body := p.ask("POST", "/v1/budgets/sale/recycle", ""); status != 200 {
		t.Errorf("recycle: %d %s", status, body)
	}
	wait(`"msg":"budget recycled"`, `"budget":1`, `"budget_name":"sale"`)
	p.signal()
	p.ended()
	wait(`"msg":"stopping"`, `"notice":"50ms"`)
}

func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}
