package budget_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

func TestCheckName(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		ok   bool
	}{
		"a letter":                {"a", true},
		"the last letter":         {"z", true},
		"letters":                 {"spring-sale", true},
		"digits after a letter":   {"a0-9", true},
		"a hyphen at the end":     {"a-", true},
		"63 bytes":                {strings.Repeat("a", 63), true},
		"64 bytes":                {strings.Repeat("a", 64), false},
		"1 MiB":                   {strings.Repeat("a", 1<<20), false},
		"empty":                   {"", false},
		"a digit first":           {"0a", false},
		"only digits, like an id": {"17", false},
		"a hyphen first":          {"-a", false},
		"a capital":               {"aB", false},
		"an underscore":           {"a_b", false},
		"a space":                 {"a b", false},
		"a trailing space":        {"a ", false},
		"a colon":                 {"a:b", false},
		"braces":                  {"a{b}", false},
		"a dot":                   {"a.b", false},
		"a slash":                 {"../../admin", false},
		"escaped":                 {"a%2e", false},
		"an accent":               {"á", false},
		"a full-width letter":     {"ａ", false},
		"NUL":                     {"a\x00", false},
		"a line end":              {"a\n", false},
		"invalid UTF-8":           {"a\xff", false},
		"before a":                {"`", false},
		"after z":                 {"{", false},
	} {
		t.Run(name, func(t *testing.T) {
			if why := budget.CheckName(test.text); (why == "") != test.ok {
				t.Errorf("%.80q: %q", test.text, why)
			}
		})
	}
}

func TestCheckTexts(t *testing.T) {
	checks := map[string]struct {
		check func(string) string
		limit int
	}{
		"request id": {budget.CheckRequestID, 128},
		"key":        {budget.CheckKey, 256},
	}
	for what, c := range checks {
		for name, test := range map[string]struct {
			text string
			why  string // a part of it; "": allowed
		}{
			"one byte":                  {"a", ""},
			"a space":                   {" ", ""},
			"a trailing space":          {"a ", ""},
			"composed":                  {"á", ""},
			"decomposed":                {"a\u0301", ""},
			"an emoji":                  {"😀", ""},
			"a replacement character":   {"\ufffd", ""},
			"braces and colons":         {"{a}:b", ""},
			"wildcards":                 {"*?[", ""},
			"SQL":                       {"'; DROP TABLE deduction;--", ""},
			"a look-up":                 {"${jndi:x}", ""},
			"formats":                   {"%s%n", ""},
			"Lua":                       {"]] redis.call('FLUSHALL')", ""},
			"a path":                    {"../../admin", ""},
			"at the limit":              {strings.Repeat("a", c.limit), ""},
			"at the limit in two bytes": {strings.Repeat("é", c.limit/2), ""},
			"empty":                     {"", "is missing"},
			"one above the limit":       {strings.Repeat("a", c.limit+1), "bytes long"},
			"above it in two bytes":     {strings.Repeat("é", c.limit/2) + "a", "bytes long"},
			"1 MiB":                     {strings.Repeat("a", 1<<20), "bytes long"},
			"NUL":                       {"a\x00b", "control character at byte 1"},
			"a line end":                {"ab\r\n", "control character at byte 2"},
			"a tab":                     {"\t", "control character at byte 0"},
			"delete":                    {"é\x7f", "control character at byte 2"},
			"a C1 control":              {"a\u0085", "control character at byte 1"},
			"a lone byte":               {"\xff", "UTF-8"},
			"cut short":                 {"a\xc3", "UTF-8"},
			"overlong":                  {"\xc0\xaf", "UTF-8"},
			"a surrogate":               {"\xed\xa0\x80", "UTF-8"},
			"above Unicode":             {"\xf4\x90\x80\x80", "UTF-8"},
		} {
			t.Run(what+"/"+name, func(t *testing.T) {
				why := c.check(test.text)
				if test.why == "" && why != "" || !strings.Contains(why, test.why) {
					t.Errorf("%.80q: %q, want %q", test.text, why, test.why)
				}
			})
		}
	}
}

// TestCheckRequestIDAllowsNothingElse compares CheckRequestID with its rule for random texts.
func TestCheckRequestIDAllowsNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringN(0, -1, 130),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).
			Draw(t, "text")
		want := len(text) >= 1 && len(text) <= 128 && utf8.ValidString(text)
		for _, r := range text {
			want = want && r >= 0x20 && (r < 0x7f || r > 0x9f)
		}
		if got := budget.CheckRequestID(text) == ""; got != want {
			t.Fatalf("%q: allowed %v, want %v", text, got, want)
		}
	})
}
