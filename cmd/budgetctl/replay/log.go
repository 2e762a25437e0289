package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// maxLineBytes bounds a line of the log.
const maxLineBytes = 1 << 20

// entry is one line of a log.
type entry struct {
	line       int // its number in the file, from 1
	client     string
	amount     int64             // minor units; 0 if the line has nothing to deduct
	dimensions map[string]string // nil if the plan has none
}

// entries reads a tab-separated log whose header line names the columns. It needs those that the
// plan uses. It stops at the first error, which names the line.
func entries(r io.Reader, plan Plan) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLineBytes)
		number := 0
		fail := func(err error) { yield(entry{}, fmt.Errorf("line %d: %w", number, err)) }
		var columns []string
		for lines.Scan() {
			number++
			values := strings.Split(lines.Text(), "\t")
			if number == 1 {
				columns = values
				if err := plan.check(columns); err != nil {
					fail(err)
					return
				}
				continue
			}
			e, err := plan.read(columns, values)
			if err != nil {
				fail(err)
				return
			}
			e.line = number
			if !yield(e, nil) {
				return
			}
		}
		switch {
		case lines.Err() != nil:
			number++
			fail(lines.Err())
		case number == 0:
			number++
			fail(errors.New("the file is empty: a header line was expected"))
		}
	}
}

// check returns an error for a header without one of the columns that the plan uses.
func (p *Plan) check(columns []string) error {
	needed := []string{"client"}
	if p.Bytes {
		needed = append(needed, "bytes")
	}
	for _, column := range append(needed, slices.Sorted(maps.Values(p.Dimensions))...) {
		if !slices.Contains(columns, column) {
			return fmt.Errorf("the header must name the column %q; columns are separated by tabs", column)
		}
	}
	return nil
}

func (p *Plan) read(columns, values []string) (entry, error) {
	if len(values) != len(columns) {
		return entry{}, fmt.Errorf("%d columns, the header has %d", len(values), len(columns))
	}
	value := func(column string) string { return values[slices.Index(columns, column)] }
	e := entry{client: value("client"), amount: 1}
	if why := budget.CheckKey(e.client); why != "" {
		return entry{}, fmt.Errorf("client %s", why)
	}
	for name, column := range p.Dimensions {
		of := value(column)
		if of == "" {
			continue
		}
		if why := budget.CheckKey(of); why != "" {
			return entry{}, fmt.Errorf("%s %s", column, why)
		}
		if e.dimensions == nil {
			e.dimensions = make(map[string]string, len(p.Dimensions))
		}
		e.dimensions[name] = of
	}
	if p.Bytes {
		amount, ok := budget.ParseAmount(value("bytes"))
		if !ok && value("bytes") != "0" {
			return entry{}, fmt.Errorf("bytes %q: must be a whole number from 0 to %d",
				value("bytes"), budget.MaxAmount)
		}
		e.amount = amount
	}
	return e, nil
}

// Count reads a whole log and returns the number of entries with something to deduct. It finds a
// broken file before anything is sent.
func Count(r io.Reader, plan Plan) (int, error) {
	n := 0
	for e, err := range entries(r, plan) {
		if err != nil {
			return 0, err
		}
		if e.amount != 0 {
			n++
		}
	}
	return n, nil
}
