package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// link is a Markdown link to a path, an anchor or both.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)

// TestLinks checks that every file that a document links to exists, and that every anchor is a
// heading of its page.
func TestLinks(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	pages, headings := map[string]string{}, map[string][]string{}
	for _, page := range strings.Fields(string(out)) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages[page], headings[page] = string(text), anchors(string(text))
	}
	links, anchored := 0, 0
	for page, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			links++
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
				continue
			}
			if m[2] != "" {
				anchored++
				if !slices.Contains(headings[target], m[2]) {
					t.Errorf("%s links to #%s of %s, which has no such heading", page, m[2], target)
				}
			}
		}
	}
	if links < 20 || anchored < 20 {
		t.Errorf("only %d links were found, %d of them with an anchor", links, anchored)
	}
}

// code is a block of code, whose lines are no headings.
var code = regexp.MustCompile("(?ms)^ *```.*?^ *```")

// heading is a line that is a heading, without its number signs.
var heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)

// markup is what a heading's anchor does not have: signs, and where a link of the heading points to.
var markup = regexp.MustCompile(`\]\([^)]*\)|[^\p{L}\p{N} _-]`)

// anchors returns the anchors of a page's headings, as GitHub and GitLab derive them. A repeated one
// ends with its number.
func anchors(text string) []string {
	var all []string
	seen := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		anchor := strings.ReplaceAll(markup.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		again := seen[anchor]
		seen[anchor]++
		if again > 0 {
			anchor += "-" + strconv.Itoa(again)
		}
		all = append(all, anchor)
	}
	return all
}

// TestAnchors checks that anchors derives an anchor from a heading as GitHub does.
func TestAnchors(t *testing.T) {
	page := "# A page\n```sh\n# no heading\n```\n## POST /v1/a/{b}/c_d\n## What to do when\n" +
		"### `BudgetdDown`, [a link](a.md#b) – it's 2\n## What to do when\n"
	want := []string{"a-page", "post-v1abc_d", "what-to-do-when", "budgetddown-a-link--its-2",
		"what-to-do-when-1"}
	if got := anchors(page); !slices.Equal(got, want) {
		t.Errorf("the anchors are %q, want %q", got, want)
	}
}

// TestReaders checks that the first paragraph of every page of docs says whom it is for, that the
// README links to the page, and that every ADR has a status.
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

// TestNamedPaths checks that the files and folders that CONTRIBUTING.md and docs/ARCHITECTURE.md
// name exist.
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

var (
	makes   = regexp.MustCompile("(?m)(?:`|^ *(?:\\$ )?)make ([a-z-]+)")
	targets = regexp.MustCompile(`(?m)^(?:([a-z-]+):|PROOFS = (.*)$)`)
)

// TestFirstKeyIsPrivate checks that every document that writes the first key to a file makes a file that
// only its owner may read.
func TestFirstKeyIsPrivate(t *testing.T) {
	out, err := exec.Command("git", "grep", "-hE", "budgetd keys bootstrap.*>").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "(umask 077; ") && !strings.Contains(line, "git") {
			t.Errorf("others may read the first key: %s", line)
		}
	}
}

// TestDocumentedTargets checks that the Makefile has every target that a document names.
func TestDocumentedTargets(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range targets.FindAllStringSubmatch(string(makefile), -1) {
		known[m[1]] = true
		for _, proof := range strings.Fields(m[2]) {
			known[proof] = true
		}
	}
	out, err := exec.Command("git", "ls-files", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range strings.Fields(string(out)) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range makes.FindAllStringSubmatch(string(text), -1) {
			found++
			if !known[m[1]] {
				t.Errorf("%s names make %s, which the Makefile does not have", page, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d targets were found", found)
	}
}
