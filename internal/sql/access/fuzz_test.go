package access

import (
	"testing"

	"github.com/budgetd/budgetd/access"
)

// FuzzDecode checks that columns that somebody edited are refused or mean what they say: never a
// role that does not exist, and never all budgets.
func FuzzDecode(f *testing.F) {
	f.Add(make([]byte, 32), []byte("deduct"), []byte(`["sale-*"]`))
	f.Add(make([]byte, 32), []byte("root"), []byte(`[]`))
	f.Add(make([]byte, 31), []byte("admin"), []byte(`null`))
	f.Add(make([]byte, 32), []byte("Admin"), []byte(`[""]`))
	f.Fuzz(func(t *testing.T, hash, role, budgets []byte) {
		var key access.Key
		if budgets == nil || decode(&key, hash, role, budgets) != nil {
			return
		}
		if key.Role.String() != string(role) || string(key.Hash[:]) != string(hash) || len(key.Scope.Budgets) == 0 {
			t.Errorf("%x, %q, %q: %+v", hash, role, budgets, key)
		}
	})
}
