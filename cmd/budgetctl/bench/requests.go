package bench

import "strconv"

// writer writes the requests of one caller. It reuses its buffers.
type writer struct {
	plan *Plan
	body []byte
	// tail ends every request line; it includes the headers up to the value of Content-Length.
	tail string
	// dimension is a JSON string with its quotes.
	dimension string
}

func newWriter(p *Plan) writer {
	query := ""
	if p.Tenant != "" {
		query = "?tenant=" + p.Tenant // a name: nothing in it needs escaping
	}
	tail := query + " HTTP/1.1\r\nHost: " + p.Host
	if p.Token != "" {
		tail += "\r\nAuthorization: Bearer " + p.Token
	}
	return writer{plan: p, dimension: strconv.Quote(p.Dimension),
		tail: tail + "\r\nContent-Type: application/json\r\nContent-Length: "}
}

// deduct appends the call that makes one deduction.
func (w *writer) deduct(to []byte, i item) []byte {
	at, user := w.plan.draw(i)
	w.body = append(w.body[:0], '{')
	w.deduction(i, user)
	w.body = append(w.body, '}')
	return w.request(to, "/v1/budgets/", w.plan.Budgets[at], "/deduct")
}

// batch appends the call that makes several deductions.
func (w *writer) batch(to []byte, items []item) []byte {
	w.body = append(w.body[:0], `{"deductions":[`...)
	for n, i := range items {
		if n > 0 {
			w.body = append(w.body, ',')
		}
		at, user := w.plan.draw(i)
		w.body = append(w.body, `{"budget":"`...)
		w.body = append(w.body, w.plan.Budgets[at]...)
		w.body = append(w.body, `",`...)
		w.deduction(i, user)
		w.body = append(w.body, '}')
	}
	w.body = append(w.body, "]}"...)
	return w.request(to, "/v1/deductions:batch", "", "")
}

// rollback appends the call that rolls back a whole deduction.
func (w *writer) rollback(to []byte, i item) []byte {
	at, _ := w.plan.draw(i)
	w.body = append(w.body[:0], `{"request_id":"`...)
	w.body = w.plan.appendID(w.body, i)
	w.body = append(w.body, `"}`...)
	return w.request(to, "/v1/budgets/", w.plan.Budgets[at], "/rollback")
}

// deduction writes the members of one deduction. Check ensures that none needs escaping.
func (w *writer) deduction(i item, user int) {
	w.body = append(w.body, `"request_id":"`...)
	w.body = w.plan.appendID(w.body, i)
	w.body = append(w.body, `","amount":`...)
	w.body = strconv.AppendInt(w.body, w.plan.Amount, 10)
	if w.plan.Users > 0 {
		w.body = append(w.body, `,"dimensions":{`...)
		w.body = append(w.body, w.dimension...)
		w.body = append(w.body, `:"`...)
		w.body = appendUser(w.body, user)
		w.body = append(w.body, `"}`...)
	}
}

func (w *writer) request(to []byte, path, name, verb string) []byte {
	to = append(to, "POST "...)
	to = append(to, w.plan.Path...)
	to = append(to, path...)
	to = append(to, name...)
	to = append(to, verb...)
	to = append(to, w.tail...)
	to = strconv.AppendInt(to, int64(len(w.body)), 10)
	to = append(to, "\r\n\r\n"...)
	return append(to, w.body...)
}
