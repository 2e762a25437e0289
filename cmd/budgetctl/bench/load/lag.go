package load

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Lag is how far the ledger is behind the stores: entries over all lanes, seconds of the worst.
type Lag struct {
	Entries int64
	Seconds float64
}

// ReadLag adds up the lanes of a page of budgetd's metrics. A page without them is an error.
func ReadLag(page io.Reader) (lag Lag, err error) {
	found := false
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
			lag.Entries, found = lag.Entries+int64(n), true
		} else {
			lag.Seconds = max(lag.Seconds, n)
		}
	}
	if err = lines.Err(); err == nil && !found {
		err = errors.New("no budgetd_log_lag_entries in the metrics")
	}
	return lag, err
}
