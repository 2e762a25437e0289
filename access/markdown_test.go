package access

import (
	"fmt"
	"strings"
)

// Markdown returns the table of calls in docs/SECURITY.md.
func Markdown() string {
	var out strings.Builder
	out.WriteString("| call | least role | acts on | delegate |\n|---|---|---|---|\n")
	for _, call := range calls {
		least := "none"
		if call.Least != 0 {
			least = "`" + call.Least.String() + "`"
		}
		if call.More != 0 {
			least += fmt.Sprintf("; `%s` if %s", call.More, call.When)
		}
		fmt.Fprintf(&out, "| `%s %s` | %s | %s | %s |\n", call.Method, call.Pattern, least, call.Over,
			map[Delegation]string{Subtree: "subtree", Below: "below its top"}[call.Delegates])
	}
	return out.String()
}
