package adversarial

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// line is a line of testdata, or a part of one. at is its file and line.
type line struct{ at, text string }

// block is a family of requests and the answers that it requires.
type block struct {
	at string
	// parts has what follows each keyword that describes the request.
	parts map[string][]line
	// columns and rows are its table. Each row makes the family once more.
	columns []string
	rows    []names
	answers []answer
}

// answer is what must happen to the requests with each of the values.
type answer struct {
	keyword  string
	required line
	values   []line
}

// keywords are those that describe a request.
var keywords = []string{"case", "request", "untyped", "header", "raw", "body"}

// read returns the cases of a file.
func read(file, content string, known names) ([]Case, error) {
	var blocks []*block
	for i, text := range strings.Split(content, "\n") {
		if text == "" || text[0] == '#' {
			continue
		}
		l := line{fmt.Sprintf("%s:%d", file, i+1), text}
		if strings.HasPrefix(text, "case ") {
			blocks = append(blocks, &block{at: l.at, parts: map[string][]line{}})
		}
		if len(blocks) == 0 {
			return nil, fmt.Errorf("%s: stands before the first case", l.at)
		}
		if err := blocks[len(blocks)-1].add(l); err != nil {
			return nil, fmt.Errorf("%s: %w", l.at, err)
		}
	}
	var all []Case
	for _, b := range blocks {
		cases, err := b.cases(known)
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	return all, nil
}

// add takes a line of the block.
func (b *block) add(l line) error {
	keyword, rest, _ := strings.Cut(l.text, " ")
	value, isValue := strings.CutPrefix(l.text, "    ")
	last := len(b.answers) - 1
	switch {
	case strings.TrimRight(l.text, " \t\r") != l.text:
		return errors.New("ends in a space; write <<bytes 20>>")
	case isValue && last < 0:
		return errors.New("a value stands before the answer that it must get")
	case isValue:
		b.answers[last].values = append(b.answers[last].values, line{l.at, value})
	case keyword == "answer", keyword == "item", keyword == "close":
		b.answers = append(b.answers, answer{keyword: keyword, required: line{l.at, rest}})
	case last >= 0:
		return errors.New("only answers and values may follow an answer")
	case keyword == "|":
		return b.addRow(l)
	case !slices.Contains(keywords, keyword):
		return fmt.Errorf("unknown keyword %q", keyword)
	case b.parts[keyword] != nil && keyword != "header" && keyword != "raw":
		return fmt.Errorf("the case has a second %s", keyword)
	default:
		b.parts[keyword] = append(b.parts[keyword], line{l.at, rest})
	}
	return nil
}

// addRow takes a row of the table. The first one names the columns.
func (b *block) addRow(l line) error {
	cells := strings.Split(strings.Trim(l.text, "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(cell)
	}
	if b.columns == nil {
		b.columns = cells
		return nil
	}
	if len(cells) != len(b.columns) {
		return fmt.Errorf("the row has %d cells, want %d", len(cells), len(b.columns))
	}
	row := names{}
	for i, column := range b.columns {
		row[column] = line{l.at, cells[i]}
	}
	b.rows = append(b.rows, row)
	return nil
}

// cases returns a case for each row, answer and value.
func (b *block) cases(known names) ([]Case, error) {
	if (b.parts["request"] == nil) == (b.parts["raw"] == nil) {
		return nil, fmt.Errorf("%s: the case needs either request or raw", b.at)
	}
	rows := b.rows
	if b.columns == nil {
		rows = []names{{}}
	}
	var all []Case
	for _, row := range rows {
		in := maps.Clone(known)
		maps.Copy(in, row)
		for _, a := range b.answers {
			delete(in, "it")
			values := a.values
			if values == nil {
				values = []line{{at: a.required.at}}
			} else if !strings.Contains(fmt.Sprint(b.parts, row), "<<it>>") {
				return nil, fmt.Errorf("%s: the case has values, but no <<it>>", b.at)
			}
			for _, value := range values {
				if a.values != nil {
					in["it"] = value
				}
				c, err := b.compose(in, a, value)
				if err != nil {
					return nil, err
				}
				all = append(all, c)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: the case has no answer or no row", b.at)
	}
	return all, nil
}

// compose returns the case of a value.
func (b *block) compose(in names, a answer, value line) (Case, error) {
	texts := map[string][]string{}
	for _, keyword := range keywords {
		for _, part := range b.parts[keyword] {
			text, err := in.expand(part)
			if err != nil {
				return Case{}, err
			}
			texts[keyword] = append(texts[keyword], text)
		}
	}
	required, err := in.expand(a.required)
	if err != nil {
		return Case{}, err
	}
	c := Case{
		Name:    strings.TrimSpace(texts["case"][0] + " " + required + " " + value.text),
		At:      value.at,
		Header:  texts["header"],
		Untyped: texts["untyped"] != nil,
		Body:    strings.Join(texts["body"], ""),
		Item:    a.keyword == "item",
	}
	c.Method, c.Path, _ = strings.Cut(strings.Join(texts["request"], ""), " ")
	if lines := texts["raw"]; lines != nil {
		c.Raw = strings.Join(lines, "\r\n") + "\r\n" + c.Body
		c.Body = ""
	}
	if err := c.require(a.keyword, required); err != nil {
		return Case{}, fmt.Errorf("%s: %w", a.required.at, err)
	}
	return c, nil
}

// require sets what the answer must have, from a text such as "422 invalid amount".
func (c *Case) require(keyword, text string) error {
	fields := strings.Fields(text)
	if keyword == "close" && len(fields) == 0 {
		return nil
	}
	if keyword == "close" || len(fields) == 0 || len(fields) > 3 {
		return fmt.Errorf("%q is not what %s requires", text, keyword)
	}
	for status := range strings.SplitSeq(fields[0], ",") {
		n, err := strconv.Atoi(status)
		if err != nil {
			return fmt.Errorf("status %q is not a number", status)
		}
		c.Statuses = append(c.Statuses, n)
	}
	if len(fields) == 1 {
		return nil
	}
	for text := range strings.SplitSeq(fields[1], ",") {
		code := budget.Code(text)
		if code.Kind() != budget.Faulty {
			return fmt.Errorf("%q is not the code of a faulty request", code)
		}
		c.Codes = append(c.Codes, code)
	}
	c.Field = strings.Join(fields[2:], "")
	return nil
}
