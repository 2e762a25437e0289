package access_test

import (
	"os"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/access"
)

// TestSecurityPageHasTheTable checks that docs/SECURITY.md contains the table of calls.
func TestSecurityPageHasTheTable(t *testing.T) {
	page, err := os.ReadFile("../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), access.Markdown()) {
		t.Errorf("replace the table of calls by this:\n%s", access.Markdown())
	}
}
