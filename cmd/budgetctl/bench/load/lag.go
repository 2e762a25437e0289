package load

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Lag is how far the ledger is behind the stores: entries over all lanes, seconds of the worst.
type Lag struct {
	Entries int64
	Seconds float64
}

// ReadLag adds up the lanes of a page of budgetd's metrics.
func ReadLag(page io.Reader) (lag Lag, err error) {
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		if name != "budgetd_log_lag_entries" && name != "budgetd_log_lag_seconds" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return lag, err
		}
		if name == "budgetd_log_lag_entries" {
			lag.Entries += int64(n)
		} else {
			lag.Seconds = max(lag.Seconds, n)
		}
	}
	return lag, lines.Err()
}
