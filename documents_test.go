package budgetd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is the target of a Markdown link that is a path, without its anchor.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

// TestLinks: every file that a document links to exists.
func TestLinks(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range strings.Fields(string(out)) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links were found", links)
	}
}

// TestReaders: every page of docs says in its first paragraph whom it is for, the README links to it,
// and every ADR has a status.
func TestReaders(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	read := func(pattern string) map[string]string {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) < 10 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		pages := map[string]string{}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, pages[name], _ = strings.Cut(string(text), "\n\n")
		}
		return pages
	}
	for name, text := range read("docs/*.md") {
		if !strings.HasPrefix(text, "This page is for ") {
			t.Errorf("%s does not begin by saying whom it is for", name)
		}
		if !strings.Contains(string(readme), "("+name+")") {
			t.Errorf("README.md does not link to %s", name)
		}
	}
	for name, text := range read("docs/adr/*.md") {
		if !strings.HasPrefix(text, "Status: ") {
			t.Errorf("%s has no status", name)
		}
	}
}

// named is a path of the repository in backticks.
var named = regexp.MustCompile("`([a-z]+/[A-Za-z0-9_./-]+)`")

// TestNamedPaths: the files and folders that CONTRIBUTING.md and docs/ARCHITECTURE.md name exist.
func TestNamedPaths(t *testing.T) {
	for _, page := range []string{"CONTRIBUTING.md", "docs/ARCHITECTURE.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllStringSubmatch(string(text), -1)
		if len(found) < 10 {
			t.Errorf("%s names only %d paths", page, len(found))
		}
		for _, m := range found {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}
