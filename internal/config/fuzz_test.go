package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/budgetd/budgetd"
)

// FuzzLoad checks that any file is either accepted with addresses and instances, or refused with a
// fault.
func FuzzLoad(f *testing.F) {
	f.Add(budgetd.Config)
	f.Add([]byte("listen: 127.0.0.1:0\ninstances:\n  - {name: r1, driver: redis, addrs: [\"h:1\"]}\n"))
	f.Add([]byte("listen: {addr: 1}\nkeys: [1, {Rate: 2}]\n? [a]\n: b\n"))
	f.Add([]byte("a: &a [*a]\n---\nb: 1\n"))
	f.Add([]byte("http: {max_connections: -9223372036854775809, read_timeout: 1e9h}\n\xff"))
	file := filepath.Join(f.TempDir(), "budgetd.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file, nil)
		var faults Faults
		if errors.As(err, &faults) && len(faults) == 0 {
			t.Errorf("%q is refused without a fault", text)
		}
		if err == nil && (len(c.Listen) == 0) {
			t.Errorf("%q is accepted as %+v", text, c)
		}
	})
}
