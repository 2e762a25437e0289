package mutants

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var run = flag.String("mutants.run", "", "run the tests of the mutants whose names match")

// root is the root of the module.
const root = "../../.."

// mutant is a change of the code that removes a safeguard.
type mutant struct {
	name, pkg, tests string
	edits            []*edit
}

// edit is a change of a file.
type edit struct {
	file     string
	old, new []string
}

// TestMutantsApply checks that every mutant still applies, and that the tests that must fail exist.
func TestMutantsApply(t *testing.T) {
	all := read(t)
	if len(all) < 60 {
		t.Fatalf("there are only %d mutants", len(all))
	}
	names := map[string]bool{}
	for _, m := range all {
		if names[m.name] {
			t.Errorf("%s: the name is used twice", m.name)
		}
		names[m.name] = true
		for _, e := range m.edits {
			if _, err := e.apply(); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
		if err := m.hasTests(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestMutants runs the tests of each mutant. All of them must pass without a mutant and fail with
// it.
func TestMutants(t *testing.T) {
	if *run == "" {
		return // the short form is TestMutantsApply
	}
	wanted, err := regexp.Compile(*run)
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	all := slices.DeleteFunc(read(t), func(m *mutant) bool { return !wanted.MatchString(m.name) })
	unchanged(t, all)
	for _, m := range all {
		what, err := m.try(t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		killed++
		t.Logf("%-60s killed by %s", m.name, what)
	}
	t.Logf("%d of %d mutants killed", killed, len(all))
}

// unchanged checks that the tests of all mutants pass on the unchanged code.
func unchanged(t *testing.T, all []*mutant) {
	t.Helper()
	tests := map[string][]string{}
	for _, m := range all {
		if names := m.names(); !slices.Contains(tests[m.pkg], names) {
			tests[m.pkg] = append(tests[m.pkg], names)
		}
	}
	for pkg, names := range tests {
		if out, err := test(pkg, "^("+strings.Join(names, "|")+")$", ""); err != nil {
			t.Fatalf("%s: tests fail without a mutant: %v\n%s", pkg, err, tail(out))
		}
	}
}

// try runs the tests of a mutant. It returns the test that failed, or an error if no test failed or
// the failure proves nothing.
func (m *mutant) try(dir string) (killer string, err error) {
	replace := map[string]string{}
	for i, e := range m.edits {
		text, err := e.apply()
		if err != nil {
			return "", err
		}
		original, err := filepath.Abs(filepath.Join(root, e.file))
		if err != nil {
			return "", err
		}
		replace[original] = filepath.Join(dir, fmt.Sprint(i, filepath.Ext(e.file)))
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	out, err := test(m.pkg, m.tests, overlay)
	switch found := failure.FindStringSubmatch(out); {
	case err == nil:
		return "", errors.New("SURVIVED")
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return "", fmt.Errorf("it does not compile:\n%s", tail(out))
	case strings.Contains(out, "panic: test timed out"):
		return "", errors.New("its tests hang, which proves nothing")
	case found != nil:
		return found[1], nil
	case strings.Contains(out, "panic: "):
		return "a panic", nil
	}
	return "", fmt.Errorf("%w:\n%s", err, tail(out))
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs tests of a package, with an overlay unless that is "".
func test(pkg, pattern, overlay string) (output string, err error) {
	args := []string{"test", "-count=1", "-vet=off", "-ldflags=-s -w", "-timeout=8m"}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	command := exec.Command("go", append(args, "-run", pattern, pkg)...)
	command.Dir = root
	out, err := command.CombinedOutput()
	if err == nil && strings.Contains(string(out), "no tests to run") {
		err = errors.New("there are no such tests")
	}
	return string(out), err
}

// names returns the top-level tests of a mutant, separated by |.
func (m *mutant) names() string {
	top, _, _ := strings.Cut(m.tests, "/")
	return strings.Trim(top, "^()$")
}

func tail(out string) string { return out[max(len(out)-3000, 0):] }

// apply returns the changed text of the file.
func (e *edit) apply() (string, error) {
	text, err := os.ReadFile(filepath.Join(root, e.file))
	if err != nil {
		return "", err
	}
	lines := make([]string, len(e.old))
	for i, line := range e.old {
		lines[i] = regexp.QuoteMeta(strings.TrimSpace(line))
	}
	pattern := regexp.MustCompile(strings.Join(lines, `\n\s*`))
	found := pattern.FindAllIndex(text, -1)
	if len(found) != 1 {
		return "", fmt.Errorf("the old text occurs %d times in %s", len(found), e.file)
	}
	return string(text[:found[0][0]]) + strings.Join(e.new, "\n") + string(text[found[0][1]:]), nil
}

// hasTests returns an error unless each test of the pattern exists, and the names of its subtests.
func (m *mutant) hasTests() error {
	files, err := filepath.Glob(filepath.Join(root, m.pkg, "*_test.go"))
	if err != nil {
		return err
	}
	source := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		source += string(text)
	}
	for name := range strings.SplitSeq(m.names(), "|") {
		if !strings.Contains(source, "func "+name+"(") {
			return fmt.Errorf("there is no %s in %s", name, m.pkg)
		}
	}
	_, subtests, _ := strings.Cut(m.tests, "/")
	for _, name := range strings.FieldsFunc(subtests, func(r rune) bool { return strings.ContainsRune("/|^()$", r) }) {
		name, _, _ = strings.Cut(name, "=") // the value of a name such as copied=true is put in
		if !strings.Contains(source, strings.ReplaceAll(name, "_", " ")) {
			return fmt.Errorf("there is no subtest %s in %s", name, m.pkg)
		}
	}
	return nil
}

// read reads the lists.
func read(t *testing.T) (all []*mutant) {
	t.Helper()
	lists, err := filepath.Glob("*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			m, err := parse(block)
			if err != nil {
				t.Fatalf("%s: %v:\n%s", list, err, block)
			}
			m.name = strings.TrimSuffix(list, ".txt") + ": " + m.name
			all = append(all, m)
		}
	}
	return all
}

// parse reads a mutant.
func parse(block string) (*mutant, error) {
	m := &mutant{}
	e := &edit{}
	for line := range strings.Lines(strings.TrimSpace(block)) {
		line = strings.TrimSuffix(line, "\n")
		rest := line[1:]
		switch line[0] {
		case '#':
			m.name = strings.TrimSpace(rest)
		case '$':
			pkg, tests, _ := strings.Cut(strings.TrimSpace(rest), " ")
			top, sub, nested := strings.Cut(tests, "/")
			m.pkg, m.tests = "./"+pkg, "^("+top+")$"
			if nested {
				m.tests += "/" + sub
			}
		case '@':
			e = &edit{file: strings.TrimSpace(rest)}
			m.edits = append(m.edits, e)
		case '-':
			e.old = append(e.old, rest)
		case '+':
			e.new = append(e.new, rest)
		default:
			return nil, fmt.Errorf("a line begins with %q", line[:1])
		}
	}
	if m.name == "" || len(m.edits) == 0 || len(m.tests) <= len("^()$") {
		return nil, errors.New("a name, a file or tests are missing")
	}
	for _, e := range m.edits {
		if len(e.old) == 0 {
			return nil, errors.New("the old text is missing")
		}
	}
	return m, nil
}
