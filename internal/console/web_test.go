package console_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWeb compiles the page's sources, checks that no modules import each other in a circle, and runs
// the tests of the modules that need no browser: the files web/src/**/*.test.ts.
func TestWeb(t *testing.T) {
	const compiler = "node_modules/typescript/bin/tsc"
	node := func(args ...string) {
		t.Helper()
		cmd := exec.Command("node", args...)
		cmd.Dir = "web"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("node %s: %v (scripts/test-deps.sh installs what it needs)\n%s", args, err, out)
		}
	}
	node(compiler, "--noEmit")
	node("cycles.mjs")

	built := t.TempDir()
	node(compiler, "--project", "tsconfig.test.json", "--outDir", built)
	tests := []string{"--test"}
	if err := fs.WalkDir(os.DirFS(built), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".test.js") {
			tests = append(tests, filepath.Join(built, name))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(tests) < 5 {
		t.Fatalf("found only the tests %q", tests[1:])
	}
	node(tests...)
}
