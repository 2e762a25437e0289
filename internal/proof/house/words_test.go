package house_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

// renamed lists words that things had before, each with the word that docs/GLOSSARY.md has now. If
// a word has an innocent meaning too, as is an expression that finds the other one.
var renamed = []struct{ word, now, as string }{
	{"lane", "partition", ""},
	{"activation", "incarnation", ""},
	{"fence", "halt", ""},
	{"unfence", "resume", ""},
	{"naive", "reference", ""},
	{"trail", "auditlog", ""},
	{"overseer", "dashboard", ""},
	{"standing", "summary", `\bstandingView|type [sS]tanding|\[\]\*?standing\b|bucket\.Standings?\b`},
	{"Unheard", "no reply", `\bUnheard\b`},
	{"Line", "PacketConn", `engine\.Line\b|\*Line\b`},
	{"twin", "duplicate", ""},
	{"places", "hints", `\bplaces +\*lru`},
	{".recall(", "hints", `\.recall\(op\)`},
	{".assume(", "hints", `\.assume\(f\)`},
	{".learn(", "hints", `\.learn\(f\)`},
	{"place", "placement, position, cursor", `\btype [pP]lace\b|\[\]place\b|\bplace\{`},
	{"Part", "a noun that says what it is",
		`\*(\w+\.)?Part\b|type Part\b|(Data|Admin|Metrics)Part\b`},
	{"slots", "cluster slot; in progress", `\bslots +chan|\batSlots\b`},
	{"slotOf", "cluster slot", `\bslotOf\(|\bSlotOf\(`},
	{"meBack", "returnUnits", `\b[cC]o?a?meBack\b`},
	{"Give", "credit", `type Give\b`},
	{"Draw", "debit", `type Draw\b`},
	{"Portion", "share", `type Portion\b`},
	{"Turn", "rollover", `\bTurn(ed)?\b( struct|\{)`},
	{"turn(", "rollover, next slice, fair turn", `(\) |[a-z]\.)turn\(`},
	{"turned(", "rollover", `(\) |[a-z]\.)turned\(`},
	{"redistribut", "recycle, distribute", `(?i)redistribut`},
	{"handout", "distribute", `(?i)handout`},
	{"hand-out", "distribution", `hand-out`},
	{"Spread(", "divide", `allocation\.Spread\(|func Spread\(`},
	{"Book", "snapshot", `\bbucket\.Book\b|\baudit\.Books\b`},
	{"Pass", "visitor", `\baudit\.Pass\b|type Pass interface`},
	{"watchEvery", "evaluateEvery", ``},
	{"gathered", "collected", `\bGathered\b`},
	{"touch", "charge", `\b(limit|ledger)\.Touch|type Touch|\bTouches\(|\bTouches +\[\]|\btouches\[`},
	{"tally", "usage", `\b(limit\.(New)?Tally|rowTally)\b|\bTallies\(|\.Tally\(`},
	{"cover", "availability", `\bledger\.Cover\b|\b[cC]overRow\b|\bcoversOf\b|type Cover\b`},
	{"standings", "balances, overview", `\b[Ss]tandings\b`},
	{"c.fail(", "reply", `\bc\.fail\(`},
	{"TimeUp", "reply", `\bTimeUp\b`},
}

// mayHave lists files that may have such words, with the reason.
var mayHave = map[string]string{
	"CHANGELOG.md":                                            "history",
	"LICENSE":                                                 "its own words",
	"ring/skip_test.go":                                       "nodes whose hashes are alike",
	"ring/testdata/hash.tsv":                                  "words to hash",
	"internal/proof/house/words_test.go":                      "the list",
	"internal/config/load.go":                                 "refuses the old key with the new one's name",
	"internal/config/config_test.go":                          "checks that",
	"docs/adr/0002-one-grant-per-hand-out.md":                 "void, and so is its word",
	"docs/adr/0009-store-mode-proof.md":                       "a clock that fences messages",
	"docs/adr/0013-periods.md":                                "a commit that fences messages",
	"docs/adr/0011-instances-are-drained-bucket-by-bucket.md": "a fence for late messages",
}

// former returns an expression that finds a word within identifiers, JSON, SQL and prose: lane,
// lanes, byLane, lane_of, LANES, but not plane.
func former(word string) *regexp.Regexp {
	title := strings.ToUpper(word[:1]) + word[1:]
	return regexp.MustCompile(`(^|[^A-Za-z])` + word + `[sd]?($|[^a-z])|` + title + `[sd]?($|[^a-z])|` +
		`(^|[^A-Za-z])` + strings.ToUpper(word) + `[SD]?($|[^A-Za-z])`)
}

// TestFormerWords checks that no tracked file, nor its name, has a word that was replaced.
func TestFormerWords(t *testing.T) {
	for _, one := range []struct {
		text string
		has  bool
	}{{"lanes", true}, {"byLane", true}, {"nextLanes[i]", true}, {"lane_of", true}, {"A_LANE", true},
		{"planes", false}, {"Planet", false}, {"explanation", false}} {
		if got := former("lane").MatchString(one.text); got != one.has {
			t.Errorf("%q: %v, want %v", one.text, got, one.has)
		}
	}
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	expressions := make([]*regexp.Regexp, len(renamed))
	for i, r := range renamed {
		if r.as == "" {
			expressions[i] = former(r.word)
		} else {
			expressions[i] = regexp.MustCompile(r.as)
		}
	}
	used := map[string]bool{}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 || path.Ext(name) == ".sum" ||
			strings.HasPrefix(name, "internal/console/dist/") {
			continue
		}
		lower := strings.ToLower(string(text) + name)
		for i, r := range renamed {
			word := strings.ToLower(r.word)
			if !strings.Contains(lower, word) {
				continue
			}
			for n, line := range append(strings.Split(string(text), "\n"), name) {
				switch {
				case !strings.Contains(strings.ToLower(line), word) || !expressions[i].MatchString(line):
				case mayHave[name] != "":
					used[name] = true
				default:
					t.Errorf("%s:%d: %s is %s now: %s", name, n+1, r.word, r.now, strings.TrimSpace(line))
				}
			}
		}
	}
	for name := range mayHave {
		if !used[name] {
			t.Errorf("the exception for %s is not needed any more", name)
		}
	}
}
