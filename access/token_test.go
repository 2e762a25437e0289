package access

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
)

func newToken(t testing.TB) Token {
	t.Helper()
	token, err := NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokenRoundTrip(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token := newToken(t)
		if seen[token.ID()] || len(token.Reveal()) != TokenLength {
			t.Fatalf("%d bytes, or an id twice: %s", len(token.Reveal()), token.Reveal())
		}
		seen[token.ID()] = true
		read, reason := ParseToken(token.Reveal())
		if reason != Accepted || read != token || !read.Hash().Equal(token.Hash()) {
			t.Fatalf("%s: read as %#v, %q", token.Reveal(), read, reason)
		}
	}
}

// TestTokenOfSmallSecret checks that a short secret is padded to the full length.
func TestTokenOfSmallSecret(t *testing.T) {
	token, err := NewToken(bytes.NewReader(make([]byte, 64)))
	if err != nil {
		t.Fatal(err)
	}
	want := "bdg_0000000000_" + strings.Repeat("0", 43) + "_" + token.Reveal()[checksumAt:]
	if token.Reveal() != want {
		t.Errorf("got %s", token.Reveal())
	}
}

// TestTokenOfLargestSecret checks that the largest secret fits, and that an id skips bytes that
// would favour some letters.
func TestTokenOfLargestSecret(t *testing.T) {
	random := bytes.NewReader(bytes.Repeat([]byte{255}, 32))
	id := bytes.NewReader(append(bytes.Repeat([]byte{255, 252}, 5), bytes.Repeat([]byte{35}, 10)...))
	token, err := NewToken(io.MultiReader(random, id))
	if err != nil {
		t.Fatal(err)
	}
	if _, reason := ParseToken(token.Reveal()); reason != Accepted || token.ID() != "zzzzzzzzzz" {
		t.Errorf("%s: %q", token.Reveal(), reason)
	}
}

func TestNoRandomness(t *testing.T) {
	broken := errors.New("broken")
	for n := range 42 {
		random := io.MultiReader(bytes.NewReader(make([]byte, n)), iotest.ErrReader(broken))
		if _, err := NewToken(random); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// TestTypingErrors checks that the checksum detects every wrong character and every swap of
// neighbours.
func TestTypingErrors(t *testing.T) {
	whole := newToken(t).Reveal()
	for n := range len(whole) {
		for _, wrong := range []byte("0aZ_-\x00\xff") {
			text := whole[:n] + string(wrong) + whole[n+1:]
			if _, reason := ParseToken(text); text != whole && reason == Accepted {
				t.Errorf("%q at %d is accepted", wrong, n)
			}
		}
		if n > 0 && whole[n] != whole[n-1] {
			text := whole[:n-1] + whole[n:n+1] + whole[n-1:n] + whole[n+1:]
			if _, reason := ParseToken(text); reason == Accepted {
				t.Errorf("%d and %d exchanged are accepted", n-1, n)
			}
		}
		if _, reason := ParseToken(whole[:n]); reason != Malformed {
			t.Errorf("the first %d bytes: %q", n, reason)
		}
	}
	if _, reason := ParseToken(whole + "0"); reason != Malformed {
		t.Errorf("one byte more: %q", reason)
	}
}

// TestChecksumIsCRC32 compares the checksum with the CRC-32 of the standard library.
func TestChecksumIsCRC32(t *testing.T) {
	whole := newToken(t).Reveal()
	sum := crc32.ChecksumIEEE([]byte(whole[:checksumAt-1]))
	read := uint32(0)
	for _, digit := range whole[checksumAt:] {
		read = read*62 + uint32(strings.IndexRune(digits, digit))
	}
	if read != sum {
		t.Errorf("%s: %d, want %d", whole, read, sum)
	}
}

// TestTokenIsRedacted checks that only Reveal shows the secret.
func TestTokenIsRedacted(t *testing.T) {
	token := newToken(t)
	secret := token.Reveal()[secretAt : checksumAt-1]
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb+"\n", token, struct{ T Token }{token})
	}
	text, err := json.Marshal(map[string]any{"token": token, "nested": []Token{token}})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("key", "token", token, "in", struct{ T Token }{token})
	slog.New(slog.NewTextHandler(&out, nil)).Info("key", "token", token)
	for _, shown := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
		if strings.Contains(out.String(), shown) {
			t.Errorf("the secret is shown: %s", out.String())
		}
	}
	if !strings.Contains(out.String(), token.ID()) {
		t.Errorf("the id is not shown: %s", out.String())
	}
}

// FuzzParseToken checks that accepted texts are canonical, so that no two texts are the same key.
func FuzzParseToken(f *testing.F) {
	f.Add(newToken(f).Reveal())
	f.Add("")
	f.Add("bdg_0000000000_0000000000000000000000000000000000000000000_000000")
	f.Add("bdg_" + strings.Repeat("_", 61))
	f.Fuzz(func(t *testing.T, text string) {
		token, reason := ParseToken(text)
		if (reason == Accepted) != (token.Reveal() == text && text != "") {
			t.Errorf("%q: %q", text, reason)
		}
		if reason == Accepted && len(token.ID()) != idLength {
			t.Errorf("%q: id %q", text, token.ID())
		}
	})
}
