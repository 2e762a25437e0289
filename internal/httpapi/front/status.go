package front

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// statusLines has the first line of an answer of each status below 600.
var statusLines = func() (lines [600]string) {
	for status := range lines {
		text := http.StatusText(status)
		if text == "" {
			text = fmt.Sprintf("status code %d", status) // as net/http writes it
		}
		lines[status] = fmt.Sprintf("HTTP/1.1 %03d %s\r\n", status, text)
	}
	return lines
}()

func statusLine(status int) string { return statusLines[status] }

// dates writes the time as HTTP does, once a second. Safe for concurrent use.
type dates struct{ latest atomic.Pointer[date] }

type date struct {
	second int64
	text   string
}

func (d *dates) of(now time.Time) string {
	second := now.Unix()
	if known := d.latest.Load(); known != nil && known.second == second {
		return known.text
	}
	made := &date{second, now.UTC().Format(http.TimeFormat)}
	d.latest.Store(made)
	return made.text
}
