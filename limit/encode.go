package limit

import (
	"encoding/json"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// stored is a limit as stored in SQL: the contract's JSON, with lengths as text ("8h0m0s").
type stored struct {
	budget.Limit
	Window storedWindow `json:"window"`
}

type storedWindow struct {
	Kind     budget.WindowKind `json:"kind"`
	Every    budget.Every      `json:"every,omitzero"`
	Anchor   budget.Anchor     `json:"anchor,omitzero"`
	Timezone string            `json:"timezone,omitzero"`
	Length   string            `json:"length,omitzero"`
	Slot     string            `json:"slot,omitzero"`
}

// Encode returns the canonical text of a limit, without its overrides and the time of its last
// change.
func Encode(l budget.Limit) []byte {
	l.Overrides = nil
	return encode(l)
}

func encode(l budget.Limit) []byte {
	w := l.Window
	s := stored{l, storedWindow{Kind: w.Kind, Every: w.Every, Anchor: w.Anchor,
		Timezone: w.Timezone}}
	if w.Length != 0 {
		s.Window.Length = w.Length.String()
	}
	if w.Slot != 0 {
		s.Window.Slot = w.Slot.String()
	}
	text, _ := json.Marshal(s) // strings and numbers only
	return text
}

// Decode parses the result of Encode.
func Decode(text []byte) (budget.Limit, error) {
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return budget.Limit{}, err
	}
	l := s.Limit
	l.Window = budget.LimitWindow{Kind: s.Window.Kind, Every: s.Window.Every, Anchor: s.Window.Anchor,
		Timezone: s.Window.Timezone}
	for _, part := range []struct {
		text string
		to   *time.Duration
	}{{s.Window.Length, &l.Window.Length}, {s.Window.Slot, &l.Window.Slot}} {
		if part.text == "" {
			continue
		}
		d, err := time.ParseDuration(part.text)
		if err != nil {
			return budget.Limit{}, err
		}
		*part.to = d
	}
	return l, nil
}

// EncodeAll returns the canonical text of a list of limits with the overrides that they are given,
// "" for none.
func EncodeAll(limits *budget.Limits) string { return encodeAll(limits, encode) }

// Same reports whether two lists of limits are equal apart from overrides.
func Same(a, b *budget.Limits) bool { return encodeAll(a, Encode) == encodeAll(b, Encode) }

func encodeAll(limits *budget.Limits, encode func(budget.Limit) []byte) string {
	if limits == nil || len(limits.List) == 0 {
		return ""
	}
	var out []json.RawMessage
	for _, l := range limits.List {
		out = append(out, encode(l))
	}
	text, _ := json.Marshal(out)
	return string(text)
}
