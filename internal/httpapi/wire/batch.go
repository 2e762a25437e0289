package wire

// BatchAnswer holds an accepted deduction or a problem for each deduction, in order.
type BatchAnswer struct {
	Results []any `json:"results"`
}
