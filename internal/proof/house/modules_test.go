package house_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUsersOfTheClient checks that a program outside the repository can use the client with Go
// 1.24 and the lines that examples/README.md gives for its go.mod, and inherits only the client's few
// modules, not the server's.
func TestUsersOfTheClient(t *testing.T) {
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("client/go.sum")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Join(regexp.MustCompile(`(?m)^replace .*\n`).FindAll(page, -1), nil)
	files := map[string]string{
		"go.mod": `module shop

go 1.24

require github.com/budgetd/budgetd/client v0.0.0

` + strings.ReplaceAll(string(lines), "../budgetd", here),
		"go.sum": string(sums),
		"main.go": `package main

import "github.com/budgetd/budgetd/client"

func main() { println(client.NewRequestID()) }
`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goes := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod -trimpath")
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
		}
		return string(out)
	}
	goes("build", "-o", os.DevNull, ".")
	few := regexp.MustCompile(`^(shop|github\.com/budgetd/budgetd/(api|budget|client)|` +
		`github\.com/go-json-experiment/json|github\.com/google/(go-cmp|uuid)|pgregory\.net/rapid)$`)
	for one := range strings.Lines(goes("list", "-m", "-f", "{{.Path}}", "all")) {
		if one = strings.TrimSpace(one); !few.MatchString(one) {
			t.Errorf("a user of the client inherits %s", one)
		}
	}
	if text := goes("mod", "edit", "-print"); !strings.Contains(text, "\ngo 1.24\n") {
		t.Errorf("the module of a user of the client no longer says go 1.24:\n%s", text)
	}
}

// TestNeededGo checks that the README names the newest Go that a module of the repository asks for.
// scripts/need-go.sh prints the same version if Go is missing, and the address to get it from.
func TestNeededGo(t *testing.T) {
	script := exec.Command("scripts/need-go.sh")
	script.Env = append(os.Environ(), "GO=no-such-go")
	out, err := script.CombinedOutput()
	needs := regexp.MustCompile(`budgetd needs Go (\S+) or later: see https://go\.dev/dl/`).FindSubmatch(out)
	if err == nil || needs == nil {
		t.Fatalf("without Go, scripts/need-go.sh printed %s (%v)", out, err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "[Go](https://go.dev/dl/) " + string(needs[1]) + " or later"; !strings.Contains(
		string(readme), want) {
		t.Errorf("README.md does not say %q", want)
	}
}
