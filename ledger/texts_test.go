package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCanonical compares writing and reading texts with encoding/json.
func TestCanonical(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := []rune("abcXYZ019 _-.:/+{}[],\"\\<>&\n\x00\x7fé本\u2028😀")
	draw := func() string {
		text := make([]rune, random.IntN(6))
		most := len(letters)
		if random.IntN(2) == 0 {
			most = 19 // plain ones
		}
		for i := range text {
			text[i] = letters[random.IntN(most)]
		}
		return string(text)
	}
	plain := 0
	for range 20_000 {
		texts := map[string]string{}
		for range 1 + random.IntN(4) {
			texts[draw()] = draw()
		}
		want, err := json.Marshal(texts)
		if err != nil {
			t.Fatal(err)
		}
		got := Dimensions(texts)
		if got != string(want) {
			t.Fatalf("%q: %s, want %s", texts, got, want)
		}
		if read := ReadDimensions(got); !maps.Equal(read, texts) {
			t.Fatalf("%s read as %q", got, read)
		}
		sameDimensions(t, got, texts)
		if _, ok := readPlain(got); ok {
			plain++
		}
	}
	if plain < 4000 || plain > 15_000 {
		t.Errorf("%d of 20000 were read without encoding/json", plain)
	}
}

// TestReadDimensionsOfOtherTexts checks that a text not written by Dimensions is read as
// encoding/json reads it.
func TestReadDimensionsOfOtherTexts(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"a"}`, `{"a":}`, `{"a":"b"`, `{"a":"b",}`, `{"a":"b"}x`, `{"a":1}`, ` {"a":"b"}`,
		`{"a" : "b"}`, `{"a":"b","a":"c"}`, `{"a":"\u0062"}`, `["a"]`, `null`, `{"a":"b""c":"d"}`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}"} {
		var want map[string]string
		if json.Unmarshal([]byte(text), &want) != nil {
			want = nil
		}
		if got := ReadDimensions(text); fmt.Sprint(got) != fmt.Sprint(want) || (got == nil) != (want == nil) {
			t.Errorf("%q read as %v, want %v", text, got, want)
		}
		sameDimensions(t, text, want)
	}
}

// sameDimensions compares AppendDimensions with another way of reading.
func sameDimensions(t *testing.T, text string, want map[string]string) {
	t.Helper()
	before := []Dimension{{"zzz", "before"}, {"before", "zzz"}}
	got := AppendDimensions(slices.Clone(before), text)
	if !slices.Equal(got[:len(before)], before) || len(got) != len(before)+len(want) {
		t.Fatalf("%q read as %q after %q, want %q", text, got, before, want)
	}
	got = got[len(before):]
	if !slices.IsSortedFunc(got, func(a, b Dimension) int { return cmp.Compare(a.Name, b.Name) }) {
		t.Errorf("%q read as %q, which is not sorted", text, got)
	}
	for _, d := range got {
		if is, ok := want[d.Name]; is != d.Value || !ok {
			t.Errorf("%q read as %q, want %q", text, got, want)
		}
	}
}

func BenchmarkDimensions(b *testing.B) {
	texts := map[string]string{"user": "user-0123456789", "ad": "ad-42"}
	b.ReportAllocs()
	for b.Loop() {
		if len(ReadDimensions(Dimensions(texts))) != 2 {
			b.Fatal("lost")
		}
	}
}
