package sdk

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

var listening = regexp.MustCompile(`listening.*addr"?[=:]"?([0-9.]+:[0-9]+)`)

// budgetd starts a server on a port of its own, with the budget "sale" of 1,000 units, and returns
// its address.
func budgetd(t *testing.T) string {
	t.Helper()
	log := new(testservers.Text)
	cmd := exec.Command(testservers.Program(t, "budgetd"))
	cmd.Dir, cmd.Stderr = t.TempDir(), log
	cmd.Env = append(os.Environ(), "BUDGETD_LISTEN=127.0.0.1:0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("budgetd ended with %v:\n%s", err, log.String())
		}
	})
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		found := listening.FindStringSubmatch(log.String())
		if found == nil {
			continue
		}
		url := "http://" + found[1]
		answer, err := http.Post(url+"/v1/budgets", "application/json", strings.NewReader(
			`{"name":"sale","unit":"count","type":"promo","total_quantity":1000}`))
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusCreated {
			return url
		}
		t.Logf("not ready: %s", text)
	}
	t.Fatalf("budgetd is not ready:\n%s", log.String())
	return ""
}

// run runs a program with the address of the server in BUDGETD_URL.
func run(t *testing.T, url, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "BUDGETD_URL="+url, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v (scripts/test-deps.sh installs what it needs)\n%s", name, args, err, out)
	}
}

func TestPython(t *testing.T) {
	run(t, budgetd(t), "../../../sdk/python", "python3", "-W", "error", "-m", "unittest", "discover", "tests")
}

func TestTypeScript(t *testing.T) {
	const dir = "../../../sdk/typescript"
	url := budgetd(t)
	run(t, url, dir, "node", "node_modules/typescript/bin/tsc")
	run(t, url, dir, "node", "--test", "tests/")
}

// TestGates runs the gates for language models, whose client is that of TypeScript.
func TestGates(t *testing.T) {
	const dir = "../../../examples/gates"
	url := budgetd(t)
	run(t, url, "../../../sdk/typescript", "node", "node_modules/typescript/bin/tsc")
	run(t, url, dir, "node", "--test", "tests/")
}

// TestLiteLLM runs the gate for LiteLLM's proxy, whose client is that of Python.
func TestLiteLLM(t *testing.T) {
	run(t, budgetd(t), "../../../examples/gates/litellm", "python3", "-W", "error", "-m", "unittest",
		"discover", "tests")
}

func TestJava(t *testing.T) { java(t, "io.budgetd.Tests", "src/test/java") }

// TestSpring runs the gate for Spring, whose client is that of Java.
func TestSpring(t *testing.T) { java(t, "GateTest", "../../examples/gates/spring") }

// java compiles the client for Java and the sources in another folder, and runs a class of them.
func java(t *testing.T, class, other string) {
	const dir = "../../../sdk/java"
	url := budgetd(t)
	classes := t.TempDir()
	args := []string{"--release", "17", "-encoding", "UTF-8", "-Xlint:all", "-Werror", "-d", classes}
	add := func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".java") {
			return err
		}
		source, err := filepath.Rel(dir, file)
		args = append(args, source)
		return err
	}
	for _, folder := range []string{"src/main/java", other} {
		if err := filepath.WalkDir(filepath.Join(dir, folder), add); err != nil {
			t.Fatal(err)
		}
	}
	run(t, url, dir, "javac", args...)
	run(t, url, dir, "java", "-ea", "-cp", classes, class)
}
