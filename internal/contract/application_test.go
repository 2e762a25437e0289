package contract_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestApplication runs the program of examples/typescript against a server. Its types are those of
// the client, which openapi-typescript generates from the server's /openapi.json, and the compiler
// accepts it with them.
func TestApplication(t *testing.T) {
	const dir, sdk = "../../examples/typescript", "../../sdk/typescript"
	n := start(t)
	node := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.Command("node", args...)
		cmd.Dir = in
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("node %s: %v (scripts/test-deps.sh installs what it needs)\n%s", args, err, out)
		}
		return string(out)
	}
	types := filepath.Join(t.TempDir(), "api.d.ts")
	node(sdk, "node_modules/openapi-typescript/bin/cli.js", n.URL+"/openapi.json", "--output", types)
	generated, err := os.ReadFile(types)
	if err != nil {
		t.Fatal(err)
	}
	if there, err := os.ReadFile(sdk + "/src/api.d.ts"); err != nil || !bytes.Equal(there, generated) {
		t.Errorf("sdk/typescript/src/api.d.ts is not up to date (%v): npm run types", err)
	}
	node(dir, "node_modules/typescript/bin/tsc")
	const want = `sold 3 replayed true
refused limit_exceeded per-user 3 of 4 asked 2
paid used 3
batch accepted budget_exhausted
feed confirm cart-1 3, deduct cart-1 4, deduct order-1 3, deduct order-3 1, rollback order-1 1
books 6 used 4 left ok
`
	if got := node(dir, "build/shop.js", n.URL, n.token); got != want {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
}
