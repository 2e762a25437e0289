package front

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// statusLines holds the first line of an answer for each status below 600.
var statusLines = func() (lines [600]string) {
	for status := range lines {
		text := http.StatusText(status)
		if text == "" {
			text = fmt.Sprintf("status code %d", status) // the form of net/http
		}
		lines[status] = fmt.Sprintf("HTTP/1.1 %03d %s\r\n", status, text)
	}
	return lines
}()

func statusLine(status int) string { return statusLines[status] }

// dates formats the time for the Date header once a second. It is safe for concurrent use.
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
