package e2e

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

var updateDocuments = flag.Bool("documents.update", false,
	"write the outputs of the commands in docs/TUTORIAL.md and docs/recipes instead of comparing them")

// changing matches what differs between the outputs of two runs: instants, spans, ids and cursors.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)|\b(\d+h)?(\d+m)?\d+s\b|` +
	`"(expires_in|retry_after)":[\d.]+|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[A-Z2-7]{26}\b|(next: )\S+`)

var spaces = regexp.MustCompile(`[ \t]+`)

// stable returns an output without what differs between two runs.
func stable(output string) string {
	return spaces.ReplaceAllString(changing.ReplaceAllString(strings.TrimSpace(output), "…"), " ")
}

// TestPages runs every command in the console blocks of docs/TUTORIAL.md and of the recipes, in
// order, each page against a fresh server, and compares the output with the page.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/recipes/*.md")
	must(t, err)
	if len(pages) < 3 {
		t.Errorf("only %d recipes were found", len(pages))
	}
	for _, page := range append(pages, "../../../docs/TUTORIAL.md") {
		t.Run(filepath.Base(page), func(t *testing.T) { runPage(t, page) })
	}
}

func runPage(t *testing.T, page string) {
	text, err := os.ReadFile(page)
	must(t, err)
	n := start(t, t.TempDir())
	parts := strings.Split(string(text), "```")
	commands := 0
	for i, part := range parts {
		if block, ok := strings.CutPrefix(part, "console\n"); ok {
			var out strings.Builder
			out.WriteString("console\n")
			for _, step := range strings.Split("\n"+block, "\n$ ")[1:] {
				command, want, _ := strings.Cut(step, "\n")
				got := n.shell(t, command)
				commands++
				if !*updateDocuments && stable(got) != stable(want) {
					t.Errorf("%s\nprints\n%s\nbut the page shows\n%s", command, got, want)
				}
				out.WriteString("$ " + command + "\n" + strings.TrimSpace(got) + "\n\n")
			}
			parts[i] = strings.TrimSpace(out.String()) + "\n"
		}
	}
	if commands < 8 {
		t.Errorf("only %d commands were found", commands)
	}
	if *updateDocuments {
		must(t, os.WriteFile(page, []byte(strings.Join(parts, "```")), 0o644))
	}
}

// between returns what a page has after one text and before the next occurrence of another.
func between(t *testing.T, page, after, before string) string {
	t.Helper()
	text, err := os.ReadFile("../../../" + page)
	must(t, err)
	_, rest, found := strings.Cut(string(text), after)
	part, _, ended := strings.Cut(rest, before)
	if !found || !ended {
		t.Fatalf("%s has nothing between %q and %q", page, after, before)
	}
	return part
}

// inOrder is the beginning of a script that ends at its first error.
const inOrder = "set -eu -o pipefail\n"

// TestFirstCommands runs the commands of README.md for a new user, in order. Each of them succeeds.
func TestFirstCommands(t *testing.T) {
	n := start(t, t.TempDir())
	commands := between(t, "README.md", "In another terminal:\n\n```\n", "```")
	out := n.shell(t, inOrder+strings.ReplaceAll(commands, "bin/", "")+"echo all of them")
	for _, want := range []string{`"request_id":"order-1"`, "ok             yes", "\nall of them\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the commands of README.md print no %q:\n%s", want, out)
		}
	}
}

// TestMigration runs the commands of docs/MIGRATE.md for each of its three budgets: it is made, used
// with a log of requests, compared with the old counter, and switched on. A limit refuses some of
// the log.
func TestMigration(t *testing.T) {
	requests := filepath.Join(t.TempDir(), "requests.tsv")
	must(t, os.WriteFile(requests, []byte("client\taccount\na\tann\nb\tbob\na\tann\nb\tann\na\tann\n"), 0o600))
	replaced := strings.NewReplacer("FILE", requests, "NAME", "moved", "LEFT", "500", "TOTAL", "3650",
		"PER_DAY", "10", "COLUMN", "account", "max=N", "max=3")
	commands := regexp.MustCompile("`(budgetctl [^`]+)`")
	var creates, others []string
	page := between(t, "docs/MIGRATE.md", "# ", "\n[CONCEPTS")
	for _, m := range commands.FindAllStringSubmatch(page, -1) {
		switch command := replaced.Replace(m[1]); {
		case strings.HasPrefix(command, "budgetctl create moved"):
			creates = append(creates, command)
		case strings.Contains(command, " moved"):
			others = append(others, command)
		}
	}
	if len(creates) != 3 || len(others) != 7 || !strings.HasPrefix(others[0], "budgetctl replay ") ||
		others[1] != others[0]+" --dimension user=account" {
		t.Fatalf("docs/MIGRATE.md makes %q and then runs %q", creates, others)
	}
	for _, create := range creates {
		replay, accepted := others[0], "5"
		if strings.Contains(create, "--limit") {
			replay, accepted = others[1], "4"
		}
		out := start(t, t.TempDir()).shell(t, inOrder+create+"\n"+replay+"\n"+
			strings.Join(others[2:], "\n")+"\necho all of them")
		if !regexp.MustCompile(`(?m)^accepted +`+accepted+`$`).MatchString(out) ||
			!strings.Contains(out, "ok             yes") || !strings.HasSuffix(out, "\nall of them\n") {
			t.Errorf("after %s:\n%s", create, out)
		}
	}
}

// shell runs a command of a document as its reader would, with both programs on the path.
func (n *node) shell(t *testing.T, command string) string {
	t.Helper()
	c := exec.Command("bash", "-c", strings.ReplaceAll(command, "localhost:8080", n.addr))
	c.Env = append(os.Environ(), "BUDGETCTL_SERVER=http://"+n.addr,
		"PATH="+filepath.Dir(testservers.Program(t, "budgetctl"))+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err != nil && c.ProcessState == nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}

// TestTranslations checks that pages in Chinese have the commands of the English ones.
func TestTranslations(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```.*?```")
	for _, page := range []string{"README", "docs/recipes/flash-sale"} {
		english, err := os.ReadFile("../../../" + page + ".md")
		must(t, err)
		chinese, err := os.ReadFile("../../../" + page + ".zh-CN.md")
		must(t, err)
		found := blocks.FindAllString(string(chinese), -1)
		if len(found) < 3 {
			t.Errorf("%s.zh-CN.md has %d blocks of commands", page, len(found))
		}
		for _, block := range found {
			if !strings.Contains(stable(string(english)), stable(block)) {
				t.Errorf("%s.md does not have this block of its translation:\n%s", page, block)
			}
		}
	}
}
