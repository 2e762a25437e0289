package ledger

import (
	"encoding/json"
	"maps"
	"slices"
)

// Dimensions returns the canonical JSON of dimensions: members sorted by name, no white space, ""
// for no dimensions. Equal dimensions always give equal text.
func Dimensions(dimensions map[string]string) string {
	if len(dimensions) == 0 {
		return ""
	}
	return canonical(dimensions)
}

// Counts returns the canonical JSON of a request's own amounts per limit, "" for none.
func Counts(counts map[string]int64) string {
	if len(counts) == 0 {
		return ""
	}
	text, _ := json.Marshal(counts) // sorted by name
	return string(text)
}

// ReadDimensions parses the result of Dimensions. It returns nil for "" and for a text that is not
// JSON of texts by name.
func ReadDimensions(text string) (dimensions map[string]string) {
	if text == "" {
		return nil
	}
	return readCanonical(text)
}

// Dimension is one of a deduction's dimensions.
type Dimension struct{ Name, Value string }

// AppendDimensions appends the dimensions in a text, sorted by name, or nothing if ReadDimensions
// returns nil. For a text of Dimensions without escapes, only the list allocates.
func AppendDimensions(to []Dimension, text string) []Dimension {
	if text == "" {
		return to
	}
	begin := len(to)
	if eachPlain(text, func(name, value string) bool {
		if len(to) > begin && name <= to[len(to)-1].Name {
			return false // not by Dimensions: of two equal names, the last must win
		}
		to = append(to, Dimension{name, value})
		return true
	}) {
		return to
	}
	to = to[:begin]
	all := readCanonical(text)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		to = append(to, Dimension{name, all[name]})
	}
	return to
}

// ReadCounts parses the result of Counts. It returns nil for "" and for any other text.
func ReadCounts(text string) map[string]int64 {
	if text == "" {
		return nil
	}
	var counts map[string]int64
	if json.Unmarshal([]byte(text), &counts) != nil {
		return nil
	}
	return counts
}
