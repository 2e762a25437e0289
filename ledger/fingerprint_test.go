package ledger_test

import (
	"encoding/hex"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestGoldenFingerprints pins fingerprints of ledger rows, computed by another program.
func TestGoldenFingerprints(t *testing.T) {
	for want, got := range map[string]string{
		"016e212b61fec660843e594cf65cb621": ledger.Fingerprint(1, "", "", ""),
		"01f32fa680916a8ddd186ee1cbe74537": ledger.Fingerprint(5, "order-1", "for Ann", `{"user":"u1"}`),
		"01e6af300f10b753b43f10918322462f": ledger.Fingerprint(budget.MaxAmount,
			strings.Repeat("a", 128), "é", ""),
		"013c2a103548f1526b92066e880a039b": ledger.Fingerprint(1, strings.Repeat("k", 300), "", ""),
	} {
		if hex.EncodeToString([]byte(got)) != want {
			t.Errorf("%x, want %s", got, want)
		}
	}
}

func TestFingerprintsDistinguishPayloads(t *testing.T) {
	type payload struct {
		amount                     int64
		key, reference, dimensions string
	}
	text := rapid.StringN(0, 6, -1)
	payloads := rapid.Custom(func(t *rapid.T) payload {
		return payload{rapid.Int64Range(1, 3).Draw(t, "amount"), text.Draw(t, "key"),
			text.Draw(t, "reference"), text.Draw(t, "dimensions")}
	})
	of := func(p payload) string {
		return ledger.Fingerprint(p.amount, p.key, p.reference, p.dimensions)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := payloads.Draw(t, "a"), payloads.Draw(t, "b")
		switch rapid.IntRange(0, 4).Draw(t, "how") {
		case 1: // the same bytes, cut elsewhere
			b = payload{a.amount, a.key + a.reference, "", a.dimensions}
		case 2:
			b = payload{a.amount, a.key, a.dimensions, a.reference}
		case 3:
			b = a
			b.amount++
		case 4:
			b = a
		}
		if len(of(a)) != 16 || of(a)[0] != 1 {
			t.Fatalf("%x", of(a))
		}
		if (a == b) != (of(a) == of(b)) {
			t.Fatalf("%+v and %+v: %x, %x", a, b, of(a), of(b))
		}
	})
}

func TestDimensions(t *testing.T) {
	for name, test := range map[string]struct {
		dimensions map[string]string
		want       string
	}{
		"nil":  {nil, ""},
		"none": {map[string]string{}, ""},
		"one":  {map[string]string{"user": "u1"}, `{"user":"u1"}`},
		"sorted": {map[string]string{"user": "u1", "ad": "a9", "Z": "", "é": "x"},
			`{"Z":"","ad":"a9","user":"u1","é":"x"}`},
		"quotes":    {map[string]string{`"`: `\`}, `{"\"":"\\"}`},
		"HTML":      {map[string]string{"a": "<&>"}, "{\"a\":\"\\u003c\\u0026\\u003e\"}"},
		"two forms": {map[string]string{"á": "1", "a\u0301": "2"}, "{\"a\u0301\":\"2\",\"á\":\"1\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ledger.Dimensions(test.dimensions); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestDimensionsAreCanonical checks that equal dimensions give equal text, and different dimensions
// different text.
func TestDimensionsAreCanonical(t *testing.T) {
	key := rapid.StringN(1, 4, -1).Filter(func(s string) bool { return budget.CheckKey(s) == "" })
	dimensions := rapid.MapOfN(key, key, 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := dimensions.Draw(t, "a"), dimensions.Draw(t, "b")
		if ledger.Dimensions(a) != ledger.Dimensions(maps.Clone(a)) {
			t.Fatalf("%v has two different texts", a)
		}
		if maps.Equal(a, b) != (ledger.Dimensions(a) == ledger.Dimensions(b)) {
			t.Fatalf("%v and %v: %s, %s", a, b, ledger.Dimensions(a), ledger.Dimensions(b))
		}
	})
}
