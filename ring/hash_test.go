package ring_test

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/ring"
)

// vectors reads a file of two columns separated by a tab. The second one may hold anything else.
func vectors(t testing.TB, name string) [][2]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][2]string
	for line := range strings.Lines(string(text)) {
		first, second, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			t.Fatalf("%s: no tab in %q", name, line)
		}
		rows = append(rows, [2]string{first, second})
	}
	return rows
}

func TestHashVectors(t *testing.T) {
	rows := vectors(t, "hash.tsv")
	if len(rows) != 192 {
		t.Fatalf("%d vectors, want 192", len(rows))
	}
	for _, row := range rows {
		want, err := strconv.ParseUint(row[0], 10, 31)
		if err != nil {
			t.Fatal(err)
		}
		if got := ring.Hash(row[1]); got != uint32(want) {
			t.Errorf("Hash(%q) = %d, want %d", row[1], got, want)
		}
		if got := modelHash(row[1]); got != uint32(want) {
			t.Errorf("modelHash(%q) = %d, want %d", row[1], got, want)
		}
	}
}

func TestHashOfInvalidUTF8(t *testing.T) {
	for _, c := range []struct{ name, key, same string }{
		{"a byte that never occurs", "\xff", "\uFFFD"},
		{"a lone continuation byte", "a\x80b", "a\uFFFDb"},
		{"a sequence cut short, byte by byte", "a\xe4\xbd", "a\uFFFD\uFFFD"},
		{"an encoded surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"an overlong slash", "\xc0\xaf", "\uFFFD\uFFFD"},
		{"beyond U+10FFFF", "\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := ring.Hash(c.key), modelHash(c.same); got != want {
				t.Errorf("Hash(%q) = %d, want that of %q, %d", c.key, got, c.same, want)
			}
		})
	}
}

// TestHashOfCodePoints covers both ends of every length in UTF-8 and in UTF-16.
func TestHashOfCodePoints(t *testing.T) {
	for _, c := range []rune{
		0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x103FF, 0x10400,
		0x1F600, 0xFFFFF, 0x100000, 0x10FFFF,
	} {
		key := "k" + string(c) + "1"
		if got, want := ring.Hash(key), modelHash(key); got != want {
			t.Errorf("Hash(%q) = %d, want %d", key, got, want)
		}
	}
}

func FuzzHash(f *testing.F) {
	for _, row := range vectors(f, "hash.tsv") {
		f.Add(row[1])
	}
	f.Add("a\x80\xed\xa0\x80\U0010FFFF")
	f.Fuzz(func(t *testing.T, key string) {
		got := ring.Hash(key)
		if want := modelHash(key); got != want {
			t.Errorf("Hash(%q) = %d, want %d", key, got, want)
		}
		if got > math.MaxInt32 {
			t.Errorf("Hash(%q) = %d, want 31 bits", key, got)
		}
	})
}
