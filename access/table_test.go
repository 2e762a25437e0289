package access_test

import (
	"os"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/access"
)

// docs/SECURITY.md has the table of calls as the code has it.
func TestSecurityPageHasTheTable(t *testing.T) {
	page, err := os.ReadFile("../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), access.Markdown()) {
		t.Errorf("replace the table of calls by this:\n%s", access.Markdown())
	}
}
