package testservers

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const borrowVariable = "BUDGETD_TESTSERVERS_BORROW"

// TestBorrowChild runs in the processes that TestLend starts. Elsewhere it does nothing.
func TestBorrowChild(t *testing.T) {
	if os.Getenv(borrowVariable) == "" {
		return
	}
	mariaDB, redis := SharedMariaDB(t), SharedRedis(t)
	dsn := mariaDB.NewDatabase(t)
	execute(t, dsn, "CREATE TABLE one (n INT)")
	if err := mariaDB.Stop(); err == nil {
		t.Error("a shared server can be stopped")
	}
	if err := redis.Kill(); err == nil {
		t.Error("a shared server can be killed")
	}
	if got, err := ask(redis.Addr(), "PING"); err != nil || got != "+PONG" {
		t.Errorf("Redis answers %q, %v", got, err)
	}
	private := MariaDB(t) // from the run's fresh data directory
	fmt.Printf("\nservers %s %s %s\n", mariaDB.Addr(), redis.Addr(), private.Addr())
}

// TestLend checks that two processes with the environment of Lend use the same two servers.
func TestLend(t *testing.T) {
	environment, err := Lend(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for range 2 {
		child := exec.Command(os.Args[0], "-test.run=^TestBorrowChild$", "-test.timeout=5m")
		child.Env = append(append(os.Environ(), environment...), borrowVariable+"=1")
		output, err := child.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		for line := range strings.Lines(string(output)) {
			if words := strings.Fields(line); len(words) == 4 && words[0] == "servers" {
				seen = append(seen, words[1]+" "+words[2])
			}
		}
	}
	if len(seen) != 2 || seen[0] != seen[1] ||
		!strings.Contains(strings.Join(environment, "\n"), strings.Fields(seen[0])[0]) {
		t.Errorf("servers %q with %q", seen, environment)
	}
}
