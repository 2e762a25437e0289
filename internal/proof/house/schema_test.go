package house_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/budgetd/budgetd"
)

// TestSchemaIsCommented checks that every table and every column of schema.sql has a comment.
func TestSchemaIsCommented(t *testing.T) {
	column := regexp.MustCompile(`^  ([a-z_]+) (BIGINT|VARBINARY|BLOB|MEDIUMBLOB)`)
	table := regexp.MustCompile(`^CREATE TABLE (\w+)`)
	tables, columns, previous, name := 0, 0, "", ""
	for line := range strings.Lines(budgetd.Schema) {
		if m := table.FindStringSubmatch(line); m != nil {
			tables, name = tables+1, m[1]
			if !strings.HasPrefix(previous, "-- ") {
				t.Errorf("table %s has no comment", name)
			}
		}
		if m := column.FindStringSubmatch(line); m != nil {
			columns++
			if _, comment, found := strings.Cut(line, "-- "); !found || strings.TrimSpace(comment) == "" {
				t.Errorf("column %s.%s has no comment", name, m[1])
			}
		}
		previous = line
	}
	if tables < 15 || columns < 120 {
		t.Errorf("found only %d tables and %d columns", tables, columns)
	}
}
