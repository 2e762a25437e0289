package budget_test

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
)

func TestParseAmount(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want int64 // 0: refused
	}{
		"one":                       {"1", 1},
		"nine":                      {"9", 9},
		"ten":                       {"10", 10},
		"fifteen digits":            {"123456789012345", 123456789012345},
		"one below the largest":     {"9007199254740990", 9007199254740990},
		"the largest":               {"9007199254740991", 9007199254740991},
		"one above the largest":     {"9007199254740992", 0},
		"two above, no float64":     {"9007199254740993", 0},
		"sixteen nines":             {"9999999999999999", 0},
		"seventeen digits":          {"10000000000000000", 0},
		"the largest int64":         {"9223372036854775807", 0},
		"one above it":              {"9223372036854775808", 0},
		"10,000 digits":             {strings.Repeat("9", 10_000), 0},
		"10,000 zeros":              {strings.Repeat("0", 10_000), 0},
		"empty":                     {"", 0},
		"zero":                      {"0", 0},
		"minus zero":                {"-0", 0},
		"minus one":                 {"-1", 0},
		"plus one":                  {"+1", 0},
		"a fraction":                {"1.5", 0},
		"a whole fraction":          {"1.0", 0},
		"an exponent":               {"1e3", 0},
		"a large exponent":          {"1E+18", 0},
		"quoted":                    {`"5"`, 0},
		"null":                      {"null", 0},
		"true":                      {"true", 0},
		"a list":                    {"[]", 0},
		"an object":                 {"{}", 0},
		"not a number":              {"NaN", 0},
		"infinity":                  {"Infinity", 0},
		"hexadecimal":               {"0x10", 0},
		"a leading space":           {" 7", 0},
		"a trailing space":          {"7 ", 0},
		"a line end":                {"7\n", 0},
		"full-width digits":         {"７", 0},
		"a full-width digit inside": {"1７", 0},
		"arabic digits":             {"٣", 0},
		"leading zeros":             {"007", 0},
		"a separator":               {"1_000", 0},
		"a comma":                   {"1,000", 0},
		"NUL":                       {"1\x00", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := budget.ParseAmount(test.text)
			if got != test.want || ok != (test.want != 0) {
				t.Errorf("%.40q: %d, %v; want %d", test.text, got, ok, test.want)
			}
		})
	}
}

// TestParseAmountIsExact compares ParseAmount with big.Int.
func TestParseAmountIsExact(t *testing.T) {
	largest := big.NewInt(budget.MaxAmount)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[0-9]{0,20}`),
			rapid.StringMatching(`[-+ ]?[0-9]{1,17}[.eE]?[0-9]{0,2}`),
			rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
		).Draw(t, "text")
		exact, isNumber := new(big.Int).SetString(text, 10)
		want := isNumber && exact.String() == text && exact.Sign() > 0 && exact.Cmp(largest) <= 0
		got, ok := budget.ParseAmount(text)
		if ok != want || ok && got != exact.Int64() {
			t.Fatalf("%q: %d, %v; want %v", text, got, ok, want)
		}
		if ok && (!budget.ValidAmount(got) || strconv.FormatInt(got, 10) != text) {
			t.Fatalf("%q was parsed as %d, which prints differently", text, got)
		}
	})
}

func FuzzParseAmount(f *testing.F) {
	for _, seed := range []string{
		"1", "9007199254740991", "9007199254740992", "0", "-1", "1e3", "７", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		amount, ok := budget.ParseAmount(text)
		back := strconv.FormatInt(amount, 10)
		if ok != (amount != 0) || ok && (!budget.ValidAmount(amount) || back != text) {
			t.Errorf("%q: %d, %v; want the same number, or 0 and false", text, amount, ok)
		}
	})
}

func TestValidAmount(t *testing.T) {
	for amount, want := range map[int64]bool{
		-1 << 63: false, -1: false, 0: false, 1: true, budget.MaxAmount: true,
		budget.MaxAmount + 1: false, 1<<63 - 1: false,
	} {
		if got := budget.ValidAmount(amount); got != want {
			t.Errorf("%d: %v, want %v", amount, got, want)
		}
	}
	if budget.MaxAmount != 9007199254740991 {
		t.Errorf("the largest amount is %d", budget.MaxAmount)
	}
}
