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

// renamed lists words that things had before, each with the word that docs/GLOSSARY.md has now.
var renamed = []struct{ word, now string }{
	{"lane", "partition"},
	{"activation", "incarnation"},
	{"fence", "halt"},
	{"unfence", "resume"},
	{"naive", "reference"},
}

// mayHave lists files that may have such words, with the reason.
var mayHave = map[string]string{
	"CHANGELOG.md":                                            "history",
	"internal/proof/house/words_test.go":                      "the list",
	"internal/config/load.go":                                 "refuses the old key with the new one's name",
	"internal/config/config_test.go":                          "checks that",
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
	used := map[string]bool{}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(text, 0) >= 0 || path.Ext(name) == ".sum" ||
			strings.HasPrefix(name, "internal/console/dist/") {
			continue
		}
		for _, r := range renamed {
			old := former(r.word)
			for n, line := range append(strings.Split(string(text), "\n"), name) {
				switch {
				case !old.MatchString(line):
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
