package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/budgetd/budgetd/internal/safeguard"
)

// tableFile is where the safeguards, what their loss leads to and their tests are listed.
const tableFile = "docs/MUTANTS.md"

// mutant is a row of the table.
type mutant struct {
	name       safeguard.Name
	invariants string
	harm       string
	killers    []killer
}

// killer is a test that has to fail while a safeguard is off.
type killer struct {
	// folder is the package's in the repository.
	folder string
	// test is its name as reported: `TestA/sub test`.
	test string
}

func (k killer) String() string { return k.folder + " " + k.test }

var (
	rowForm    = regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")
	killerForm = regexp.MustCompile("^`([a-z/]+) (Test[^`]+)`$")
)

// readTable reads the rows of the table: each line that begins with a name in backquotes.
func readTable(text string) (rows []mutant, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := rowForm.FindStringSubmatch(line)
		if cells == nil {
			return nil, fmt.Errorf("a row that is none: %s", line)
		}
		row := mutant{name: safeguard.Name(cells[1]), invariants: cells[2], harm: cells[3]}
		for _, text := range strings.Split(cells[4], "<br>") {
			parts := killerForm.FindStringSubmatch(strings.TrimSpace(text))
			if parts == nil {
				return nil, fmt.Errorf("%s: no test is named by %q", row.name, text)
			}
			row.killers = append(row.killers, killer{folder: parts[1], test: parts[2]})
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// loadTable reads the table of the repository below root.
func loadTable(root string) ([]mutant, error) {
	text, err := os.ReadFile(root + "/" + tableFile)
	if err != nil {
		return nil, err
	}
	return readTable(string(text))
}
