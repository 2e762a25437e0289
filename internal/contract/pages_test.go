package contract_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/contract"
)

var update = flag.Bool("update", false, "write docs/API.md, docs/errors and the answers of examples")

// TestPagesInDocs checks that docs/API.md and docs/errors are up to date with openapi.yaml. Run go
// generate to write them.
func TestPagesInDocs(t *testing.T) {
	const docs = "../../docs"
	files := contract.Files()
	there, err := filepath.Glob(docs + "/errors/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range there {
		if files["errors/"+filepath.Base(file)] == nil {
			t.Errorf("%s belongs to no code", file)
		}
	}
	for name, want := range files {
		file := filepath.Join(docs, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not up to date (%v): run go generate ./internal/contract", name, err)
		}
	}
}

var (
	links = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	ids   = regexp.MustCompile(`id="([^"]+)"`)
)

// TestPages checks that every code has a page, that every link on a page has a target, and that no
// page has a script or an inline style, which browsers would block.
func TestPages(t *testing.T) {
	anchors := map[string]bool{}
	start, ok := contract.Find("/docs")
	if !ok {
		t.Fatal("/docs has no page")
	}
	for _, id := range ids.FindAllSubmatch(start.Text, -1) {
		anchors[string(id[1])] = true
	}
	pages := map[string]contract.Page{"/docs": start}
	for _, code := range codes(t) {
		page, ok := contract.Find(contract.DocsLink + string(code))
		if !ok || !bytes.Contains(page.Text, []byte("<h1")) {
			t.Errorf("%s has no page", code)
		}
		pages[contract.DocsLink+string(code)] = page
	}
	for at, page := range pages {
		text := string(page.Text)
		if strings.Contains(text, "<script") || strings.Contains(text, "style=") {
			t.Errorf("%s has a script or an inline style", at)
		}
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(link[1], "#")
			if target != "" {
				target = filepath.Join(filepath.Dir(at), target)
			} else {
				target = at
			}
			if _, ok := contract.Find(target); !ok {
				t.Errorf("%s links to %s", at, link[1])
			}
			if anchor != "" && target == "/docs" && !anchors[anchor] {
				t.Errorf("%s links to %s, which /docs does not have", at, link[1])
			}
		}
	}
}
