package e2e

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/internal/testservers"
)

var updateDocuments = flag.Bool("documents.update", false,
	"write the outputs of the commands in docs/TUTORIAL.md instead of comparing them")

// changing matches what differs between the outputs of two runs: instants, spans, ids and cursors.
var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|\b(\d+h)?(\d+m)?\d+s\b|` +
	`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[A-Z2-7]{26}\b|(next: )\S+`)

var spaces = regexp.MustCompile(`[ \t]+`)

// stable returns an output without what differs between two runs.
func stable(output string) string {
	return spaces.ReplaceAllString(changing.ReplaceAllString(strings.TrimSpace(output), "…"), " ")
}

// TestTutorial runs every command in the console blocks of docs/TUTORIAL.md, in order, against one
// fresh server, and compares the output with the page.
func TestTutorial(t *testing.T) {
	const page = "../../docs/TUTORIAL.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
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
	if commands < 10 {
		t.Errorf("only %d commands were found", commands)
	}
	if *updateDocuments {
		if err := os.WriteFile(page, []byte(strings.Join(parts, "```")), 0o644); err != nil {
			t.Fatal(err)
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
