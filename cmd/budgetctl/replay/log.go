package replay

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// maxLineBytes bounds a line of the log.
const maxLineBytes = 1 << 20

// entry is one line of a log.
type entry struct {
	line   int // its number in the file, from 1
	client string
	amount int64 // minor units; 0 if the line has nothing to deduct
}

// entries reads a tab-separated log whose header line names the columns, "client" and "bytes" among
// them. An entry's amount is its bytes if bytes is set, otherwise 1. It stops at the first error,
// which names the line.
func entries(r io.Reader, bytes bool) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLineBytes)
		number := 0
		fail := func(format string, args ...any) {
			yield(entry{}, fmt.Errorf("line %d: %w", number, fmt.Errorf(format, args...)))
		}
		var columns []string
		for lines.Scan() {
			number++
			values := strings.Split(lines.Text(), "\t")
			if number == 1 {
				columns = values
				if !slices.Contains(columns, "client") || !slices.Contains(columns, "bytes") {
					fail("the header must name the columns client and bytes, separated by tabs")
					return
				}
				continue
			}
			e, err := read(columns, values, bytes)
			if err != nil {
				fail("%w", err)
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
			fail("%w", lines.Err())
		case number == 0:
			number++
			fail("the file is empty: a header line was expected")
		}
	}
}

func read(columns, values []string, bytes bool) (entry, error) {
	if len(values) != len(columns) {
		return entry{}, fmt.Errorf("%d columns, the header has %d", len(values), len(columns))
	}
	e := entry{client: values[slices.Index(columns, "client")], amount: 1}
	if why := budget.CheckKey(e.client); why != "" {
		return entry{}, fmt.Errorf("client %s", why)
	}
	if !bytes {
		return e, nil
	}
	text := values[slices.Index(columns, "bytes")]
	amount, ok := budget.ParseAmount(text)
	if !ok && text != "0" {
		return entry{}, fmt.Errorf("bytes %q: must be a whole number from 0 to %d",
			text, budget.MaxAmount)
	}
	e.amount = amount
	return e, nil
}

// Count reads a whole log and returns the number of entries with something to deduct. It finds a
// broken file before anything is sent.
func Count(r io.Reader, bytes bool) (int, error) {
	n := 0
	for e, err := range entries(r, bytes) {
		if err != nil {
			return 0, err
		}
		if e.amount != 0 {
			n++
		}
	}
	return n, nil
}
