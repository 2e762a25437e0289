package redisstore

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
)

//go:embed lua
var luaFiles embed.FS

// TestVerdictNumbers: the scripts answer the numbers of bucket.Verdict.
func TestVerdictNumbers(t *testing.T) {
	want := map[string]bucket.Verdict{"OK": bucket.OK, "ALREADY": bucket.Already,
		"INSUFFICIENT": bucket.Insufficient, "EPOCH_CLOSED": bucket.EpochClosed,
		"EPOCH_GONE": bucket.EpochGone, "WRONG_ACTIVATION": bucket.WrongActivation,
		"WENT_BACK": bucket.WentBack, "GAP": bucket.Gap, "BROKEN": bucket.Broken}
	for _, line := range strings.Split(sharedLua, "\n") {
		names, values, found := strings.Cut(strings.TrimPrefix(line, "local "), " = ")
		if !found || !strings.HasPrefix(line, "local ") || strings.Contains(line, "MAX_") {
			continue
		}
		value := strings.Split(values, ", ")
		for i, name := range strings.Split(names, ", ") {
			if v, known := want[name]; known {
				if fmt.Sprint(int(v)) != value[i] {
					t.Errorf("%s is %s in the scripts, %d in Go", name, value[i], v)
				}
				delete(want, name)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("shared.lua has no %v", want)
	}
}

// TestScriptConventions: headers say everything, keys come through KEYS only, nothing raises.
func TestScriptConventions(t *testing.T) {
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != int(verbs)+1 {
		t.Errorf("%d files, want %d", len(files), verbs+1)
	}
	code := regexp.MustCompile(`(?m)^\s*--.*$`)
	for _, file := range files {
		data, err := luaFiles.ReadFile("lua/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		header, _, _ := strings.Cut(text, "\n\n")
		if file.Name() != "shared.lua" {
			header = text[:strings.Index(text, "\n\n")+2+strings.Index(text, "local ")]
			for _, word := range []string{"-- " + file.Name(), "-- KEYS", "-- ARGV", "-- Returns",
				"-- Atomic because", "dempotent", "Keeps"} {
				if !strings.Contains(text, word) {
					t.Errorf("%s: the header lacks %q", file.Name(), word)
				}
			}
		}
		_ = header
		body := code.ReplaceAllString(text, "")
		for _, word := range []string{"redis.call(", "budgetd:", "error(", "tostring("} {
			if strings.Contains(strings.ReplaceAll(body, "redis.error_reply(", ""), word) {
				t.Errorf("%s uses %s", file.Name(), word)
			}
		}
	}
}

// TestScriptsDiffer: no two activations, lanes, instances, installations or verbs share a script.
func TestScriptsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	n := 0
	for _, installation := range []string{"a", "b"} {
		for _, lane := range []bucket.Lane{{Instance: "r"}, {Instance: "r", Index: 1}, {Instance: "s"}} {
			for _, activation := range []int64{1, 2} {
				for _, s := range scriptsOf(installation, lane, activation) {
					seen[s.sha] = true
					n++
					if !strings.HasPrefix(s.text, fmt.Sprintf("-- activation %d ", activation)) {
						t.Errorf("a script begins with %.40q", s.text)
					}
				}
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d scripts have %d names", n, len(seen))
	}
}

// TestKeys: the grammar, as operators and ACLs see it. A change needs another format number.
func TestKeys(t *testing.T) {
	prefix := keyPrefix("inst-1", bucket.Lane{Instance: "r1", Index: 3})
	ref := bucket.Ref{Bucket: 12, Epoch: 4, Activation: 9}
	for got, want := range map[string]string{
		balanceKey(prefix, ref):    "budgetd:inst-1:{r1/3}:12:4:balance:1",
		logKey(prefix, ref.Bucket): "budgetd:inst-1:{r1/3}:12:log:1",
		entryID(4, 17):             "4-17",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestGroups: every operation once, each group in the order given.
func TestGroups(t *testing.T) {
	a, b, c := bucket.Ref{Bucket: 1}, bucket.Ref{Bucket: 2}, bucket.Ref{Bucket: 1, Activation: 1}
	refs := []bucket.Ref{b, a, b, c, a, a}
	g := groupByRef(len(refs), func(i int) bucket.Ref { return refs[i] })
	if got := fmt.Sprint(g.refs, g.counts, g.order); got !=
		fmt.Sprint([]bucket.Ref{b, a, c}, []int{2, 3, 1}, []int{0, 2, 1, 4, 5, 3}) {
		t.Error(got)
	}
	g = groupByRef(1, func(int) bucket.Ref { return a })
	if got := fmt.Sprint(g.refs, g.counts, g.order); got != fmt.Sprint([]bucket.Ref{a}, []int{1}, []int{0}) {
		t.Error(got)
	}
}
