package chaos

import (
	"errors"
	"testing"
)

// TestWorst checks that a miss never hides a failed recovery.
func TestWorst(t *testing.T) {
	broken := errors.New("not back")
	for _, tt := range []struct {
		name     string
		failures []error
		want     error
	}{
		{"nothing", []error{nil, nil}, nil},
		{"a miss", []error{nil, ErrMissed, nil}, ErrMissed},
		{"something broken", []error{broken, nil}, broken},
		{"both", []error{ErrMissed, broken}, broken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := worst(tt.failures)
			if !errors.Is(got, tt.want) || tt.want != ErrMissed && errors.Is(got, ErrMissed) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
