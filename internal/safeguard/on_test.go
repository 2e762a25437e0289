//go:build mutants

package safeguard

import "testing"

// TestChoose: only a safeguard's name switches one off.
func TestChoose(t *testing.T) {
	if choose("") != "" || choose("nonce") != Nonce {
		t.Error("a name was not understood")
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown name was accepted")
		}
	}()
	choose("nonces")
}

// TestSwap: a piece that is not there once is noticed, also while the safeguard is on.
func TestSwap(t *testing.T) {
	was := chosen
	defer func() { chosen = was }()
	chosen = ""
	if got := Swap(Nonce, "abc", "b", "x"); got != "abc" {
		t.Errorf("on: %q", got)
	}
	chosen = Nonce
	if got := Swap(Nonce, "abc", "b", "x"); got != "axc" {
		t.Errorf("off: %q", got)
	}
	for _, text := range []string{"ac", "bb"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was swapped", text)
				}
			}()
			Swap(Nonce, text, "b", "x")
		}()
	}
}
