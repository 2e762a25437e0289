package drill

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// TestCallers checks that every unit is accounted for if the clients of Python and Java make the
// calls, with their own repeats and cancels.
func TestCallers(t *testing.T) {
	sdk, err := filepath.Abs("../../../sdk")
	if err != nil {
		t.Fatal(err)
	}
	classes := t.TempDir()
	args := []string{"--release", "17", "-encoding", "UTF-8", "-d", classes, sdk + "/java/examples/Caller.java"}
	for _, folder := range []string{"", "api/"} {
		found, err := filepath.Glob(sdk + "/java/src/main/java/io/budgetd/" + folder + "*.java")
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, found...)
	}
	if out, err := exec.Command("javac", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v (scripts/test-deps.sh installs what it needs)\n%s", err, out)
	}
	t.Setenv("PYTHONPATH", sdk+"/python")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	out, err := short(t, Options{SQLite: true, Patience: time.Minute, Caller: "case $BUDGETD_CALLER in " +
		"1) exec java -XX:TieredStopAtLevel=1 -Xmx64m -cp '" + classes + "' Caller;; " +
		"*) exec python3 '" + sdk + "/python/examples/caller.py';; esac"})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"replies are cut", "a Redis comes back empty",
		"the ledger has exactly these orders", "store mode:", "Verdict: every unit is accounted for"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

// answers is a command that answers every call with a line.
func answers(line string) string {
	return "while read -r call; do printf '%s\\n' '" + line + "'; done"
}

const accepts = `{"answer": {"request_id": "o1", "state": "used", "amount": 5}}`

// TestCallerIsBroken checks that a program that ends, or does not keep to the form, ends the drill,
// and that the error has its own words.
func TestCallerIsBroken(t *testing.T) {
	for name, c := range map[string]struct{ command, want string }{
		"not there":       {"echo 'no such client' >&2; exit 1", "no such client"},
		"no JSON":         {answers("yes"), "with yes"},
		"no result":       {answers("{}"), "with {}"},
		"two results":     {answers(accepts[:len(accepts)-1] + `, "error": {"kind": "refused"}}`), "refused"},
		"an unknown kind": {answers(`{"error": {"kind": "odd"}}`), "odd"},
		"another id":      {answers(strings.Replace(accepts, "o1", "o2", 1)), "o2"},
		"another amount":  {answers(strings.Replace(accepts, "5", "6", 1)), "Amount:6"},
		"only held":       {answers(strings.Replace(accepts, "used", "held", 1)), "held"},
		"accepted":        {answers(accepts), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := startProgram(c.command, "http://127.0.0.1:1", t.TempDir(), "caller", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			err = p.deduct(t.Context(), "ledger", "o1", 5)
			var why broken
			if is := errors.As(err, &why); is != (c.want != "") || is && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	out, err := short(t, Options{SQLite: true, NoRedis: true, Caller: answers("yes")})
	if err == nil || !strings.Contains(err.Error(), "with yes") || strings.Contains(out, "Interrupted") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCallerErrors checks what the kinds of a program's errors mean for an order.
func TestCallerErrors(t *testing.T) {
	for line, want := range map[string]struct {
		kind                budget.Kind
		cancelled, once, no bool // refused at once, and after a call without an answer
	}{
		`{"error": {"kind": "refused", "code": "budget_exhausted"}}`:                    {budget.Refused, false, true, true},
		`{"error": {"kind": "refused", "code": "budget_exhausted", "cancelled": true}}`: {budget.Refused, true, true, true},
		`{"error": {"kind": "conflict", "code": "request_void"}}`:                       {budget.Conflict, false, false, true},
		`{"error": {"kind": "conflict", "code": "already_rolled_back"}}`:                {budget.Conflict, false, false, true},
		`{"error": {"kind": "conflict", "code": "request_conflict"}}`:                   {budget.Conflict, false, false, false},
		`{"error": {"kind": "not_now", "code": ""}}`:                                    {budget.NotDone, false, false, false},
		`{"error": {"kind": "unknown", "code": ""}}`:                                    {budget.MayBeDone, false, false, false},
		`{"error": {"kind": "faulty", "code": "invalid"}}`:                              {budget.Faulty, false, false, false},
	} {
		t.Run(line, func(t *testing.T) {
			p, err := startProgram(answers(line), "", t.TempDir(), "caller", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			err = p.deduct(t.Context(), "ledger", "o1", 5)
			if kindOf(err) != want.kind || isCancelled(err) != want.cancelled || refused(err, 0) != want.once ||
				refused(err, 1) != want.no {
				t.Errorf("%v is %v, cancelled %t, refused %t and %t", err, kindOf(err), isCancelled(err), refused(err, 0),
					refused(err, 1))
			}
		})
	}
}

// TestCallerGetsItsAddresses checks what a program gets.
func TestCallerGetsItsAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "got")
	p, err := startProgram(`read -r call; echo "$BUDGETD_URL $BUDGETD_CALLER $call" > '`+file+`'; echo '`+accepts+`'`,
		"http://a,http://b", t.TempDir(), "caller", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := p.cancel(t.Context(), "ledger", "o1"); err != nil {
		t.Error(err)
	}
	const want = `http://a,http://b 2 {"op":"cancel","budget":"ledger","request":{"request_id":"o1","key":"o1"}}` + "\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
