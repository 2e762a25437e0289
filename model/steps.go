package main

// Op names a step: words with %[1]d for the bucket, %[2]d … %[3]d for e and x, %[4]d for a second
// bucket.
type Op struct {
	words         string
	b, e, x, into int8
	begun         bool // it goes by a clock from before the end of the period
}

// next calls emit for every state that one step leads to. emit must not keep its argument.
func (m *model) next(s *State, emit func(*State, Op)) {
	w := walker{m: m, from: s, n: *s, emit: emit}
	for b := range int8(m.Buckets) {
		for e := int8(0); e <= s.bucket[b].current; e++ {
			x := &s.bucket[b].epoch[e]
			for _, begun := range m.lags(s) {
				w.try(m.sweep(&w.n, b, e, begun), Op{
					words: "sql: sweep bucket %[1]d epoch %[2]d, R to U", b: b, e: e, begun: begun})
			}
			if x.live() || x.status == lost || m.mutant == commitLost || m.mutant == noEpoch {
				w.store(b, e)
				w.drain(b, e)
			}
		}
		w.sql(b)
		w.lane(b)
		if int(s.faults) < m.Faults {
			m.faults(s, b, emit)
		}
	}
	for id := range int8(m.IDs) {
		w.callers(id)
	}
	w.try(m.clockPasses(&w.n), Op{words: "SQL's clock reaches the end of period %[2]d", b: -1})
	w.try(m.rollOver(&w.n), Op{words: "sql: roll over to period %[2]d", b: -1, e: 1})
	w.try(m.append(&w.n), Op{words: "sql: append %[1]d unit", b: -1 - appendUnits})
	w.try(m.adjustShrink(&w.n),
		Op{words: "sql: shrink %[1]d unit, or go on with it", b: -1 - shrinkUnits})
	w.try(m.readLimit(&w.n),
		Op{words: "a committer reads the limit's counter: %[2]d", b: -1, e: s.count})
	w.try(m.readUndistributed(&w.n), Op{words: "a node reads U: %[2]d", b: -1, e: s.U})
}

// walker makes the successors of one state.
type walker struct {
	m    *model
	from *State
	n    State // equals from between two steps
	emit func(*State, Op)
}

// try emits the state that a step made, if it did.
func (w *walker) try(ok bool, o Op) {
	if !ok {
		return
	}
	if w.m.mutant == twoStatements && w.n.peek > 0 {
		w.n.least = min(w.n.least, w.m.cover(&w.n))
	}
	w.emit(&w.n, o)
	w.n = *w.from
}

// transaction is try for a step that may have changed something before it failed.
func (w *walker) transaction(v verdict, o Op) {
	w.try(v == committed, o)
	w.n = *w.from
}

// store runs commands of one epoch.
func (w *walker) store(b, e int8) {
	m, x := w.m, &w.from.bucket[b].epoch[e]
	c := &w.n.bucket[b]
	for on := running; on <= zombie; on++ {
		if on == zombie && !x.zombie {
			break
		}
		say := &commands[on]
		w.try(m.storeOpen(c, e, on), Op{words: say.open, b: b, e: e})
		for g := range x.nextGrant {
			w.try(m.storeGrant(c, e, g, on), Op{words: say.grant, b: b, e: e, x: g})
		}
		for id := range int8(m.IDs) {
			for nonce := range int8(m.Attempts) {
				w.try(m.storeDeduct(&w.n, b, e, id, nonce, on),
					Op{words: say.deduct[nonce], b: b, e: e, x: id})
			}
			if m.Mode == storeMode && m.home(id) == b && m.undoable(id) &&
				!w.from.row[id].toldVoid && e == w.from.bucket[b].current {
				w.try(m.storeVoid(&w.n, b, e, id, on), Op{words: say.void, b: b, e: e, x: id})
			}
		}
		w.try(m.storeClose(c, e, on), Op{words: say.close, b: b, e: e})
	}
}

// commands are the words for what the running store and an old master do.
var commands = [...]struct {
	open, grant, void, close string
	deduct                   [2]string
}{
	{"store: OPEN bucket %[1]d epoch %[2]d", "store: GRANT %[3]d of bucket %[1]d epoch %[2]d",
		"store: VOID record of id %[3]d in bucket %[1]d epoch %[2]d",
		"store: CLOSE bucket %[1]d epoch %[2]d",
		[2]string{"store: DEDUCT for id %[3]d in bucket %[1]d epoch %[2]d",
			"store: DEDUCT for id %[3]d, second nonce, in bucket %[1]d epoch %[2]d"}},
	{"old master: OPEN bucket %[1]d epoch %[2]d",
		"old master: GRANT %[3]d of bucket %[1]d epoch %[2]d",
		"old master: VOID record of id %[3]d in bucket %[1]d epoch %[2]d",
		"old master: CLOSE bucket %[1]d epoch %[2]d",
		[2]string{"old master: DEDUCT for id %[3]d in bucket %[1]d epoch %[2]d",
			"old master: DEDUCT for id %[3]d, second nonce, in bucket %[1]d epoch %[2]d"}},
}

// drain commits and closes one epoch, by its log as a node reads it now, or read it before the last
// fault or from the old master.
func (w *walker) drain(b, e int8) {
	m := w.m
	for _, read := range []memory{running, zombie} {
		x := &w.from.bucket[b].epoch[e]
		l := x.logOf(read)
		if l.n == 0 {
			continue
		}
		say := &readings[read]
		end := l.n
		if l.closed() {
			end--
		}
		first := x.drained.n
		if m.mutant == noCompare {
			first = 1
		}
		for from := first; from <= x.drained.n; from++ {
			for to := from + 1; to <= end; to++ {
				for _, begun := range m.lags(w.from) {
					w.transaction(m.commit(&w.n, b, e, l, span{from, to, begun}),
						Op{words: say.commit, b: b, e: e, x: to - 1, begun: begun})
				}
			}
		}
		if !l.closed() {
			continue
		}
		w.transaction(m.closeEpoch(&w.n, b, e, l, -1), Op{words: say.close, b: b, e: e})
		for t := range int8(m.Buckets) {
			if t != b && m.mayGrow(w.from.newest(t)) {
				w.transaction(m.closeEpoch(&w.n, b, e, l, t),
					Op{words: say.collect, b: b, e: e, into: t})
			}
		}
	}
}

// readings are the words for transactions by a log as it is, and as an old one was.
var readings = [...]struct{ commit, close, collect string }{
	{"sql: commit bucket %[1]d epoch %[2]d up to entry %[3]d",
		"sql: close bucket %[1]d epoch %[2]d, O to U",
		"sql: close bucket %[1]d epoch %[2]d, collect into bucket %[4]d"},
	{"sql: commit bucket %[1]d epoch %[2]d up to entry %[3]d of the OLD log",
		"sql: close bucket %[1]d epoch %[2]d by the OLD log, O to U",
		"sql: close bucket %[1]d epoch %[2]d by the OLD log, collect into bucket %[4]d"},
}

// sql moves units and statuses of one bucket.
func (w *walker) sql(b int8) {
	m, s := w.m, w.from
	for units := int8(0); units <= s.releasable(); units++ {
		w.try(m.online(&w.n, b, units, m.Epochs),
			Op{words: "sql: online bucket %[1]d with %[2]d units", b: b, e: units})
		w.try(units > 0 && m.apply(&w.n, b, units),
			Op{words: "sql: apply %[2]d units for bucket %[1]d", b: b, e: units})
	}
	w.try(m.markOpen(&w.n, b), Op{words: "sql: bucket %[1]d is open", b: b})
	w.try(m.ending(&w.n, b), Op{words: "sql: bucket %[1]d is closing", b: b})
	w.try(m.fence(&w.n, b), Op{words: "sql: fence bucket %[1]d", b: b})
	w.try(m.collectRest(&w.n, b), Op{words: "sql: collect's second half, into bucket %[1]d", b: b})
}

// lane recovers a bucket's lane.
func (w *walker) lane(b int8) {
	m, c := w.m, &w.n.bucket[b]
	w.try(m.recover(&w.n, b), Op{words: "sql: next activation for bucket %[1]d's lane", b: b})
	w.try(c.activate(), Op{words: "scripts loaded for bucket %[1]d's lane", b: b})
	w.try(m.lose(&w.n, b), Op{words: "sql: lose bucket %[1]d's epoch", b: b})
	if m.Mode != storeMode {
		return
	}
	for e := int8(0); e <= w.from.bucket[b].current; e++ {
		for node := range int8(m.Nodes) {
			w.try(m.hear(c, e, node),
				Op{words: "a node leaves bucket %[1]d's epoch %[2]d", b: b, e: e})
			for id := range int8(m.IDs) {
				w.try(m.acknowledge(&w.n, b, e, id, node), Op{
					words: "a node answers accepted for id %[3]d, bucket %[1]d epoch %[2]d", b: b, e: e, x: id})
			}
		}
		w.try(m.release(&w.n, b, e),
			Op{words: "sql: release Q of bucket %[1]d epoch %[2]d", b: b, e: e})
	}
}

// callers roll back, cancel and are refused.
func (w *walker) callers(id int8) {
	m := w.m
	for _, begun := range m.lags(w.from) {
		if m.undoable(id) {
			w.try(m.rollback(&w.n, id, rollbackPart, begun),
				Op{words: "sql: roll 1 unit of id %[3]d back", b: -1, x: id, begun: begun})
			w.try(m.rollback(&w.n, id, rollbackWhole, begun),
				Op{words: "sql: roll id %[3]d back", b: -1, x: id, begun: begun})
			w.try(m.cancel(&w.n, id, begun),
				Op{words: "sql: cancel id %[3]d", b: -1, x: id, begun: begun})
		}
		w.hold(id, begun)
	}
	w.try(m.notFound(&w.n, id),
		Op{words: "tell a confirm or a rollback of id %[3]d that it is not found", b: -1, x: id})
	for nonce := range int8(m.Attempts) {
		w.try(m.refuse(&w.n, id, nonce),
			Op{words: "answer budget_exhausted to id %[3]d, nonce %[2]d", b: -1, e: nonce, x: id})
	}
	for b := range int8(m.Buckets) {
		w.try(m.misread(&w.n, b, id), Op{
			words: "answer id %[3]d by the row at its entry's position, bucket %[1]d", b: b, x: id})
	}
	w.try(m.rememberExhausted(&w.n, id),
		Op{words: "a node remembers budget_exhausted of id %[3]d", b: -1, x: id})
	w.try(m.refuseBySum(&w.n, id),
		Op{words: "it reads O and R, and answers budget_exhausted to id %[3]d", b: -1, x: id})
	w.try(m.refuseLessShrink(&w.n, id),
		Op{words: "answer budget_exhausted to id %[3]d, less the pending shrink", b: -1, x: id})
}

// hold ends a hold, or makes it last longer.
func (w *walker) hold(id int8, begun bool) {
	m := w.m
	if !m.hold[id] {
		return
	}
	w.try(m.confirm(&w.n, id, false, begun),
		Op{words: "sql: confirm id %[3]d", b: -1, x: id, begun: begun})
	w.try(m.confirm(&w.n, id, true, begun),
		Op{words: "sql: confirm 1 unit of id %[3]d", b: -1, x: id, begun: begun})
	w.try(m.expire(&w.n, id, begun), Op{words: "sql: id %[3]d expires", b: -1, x: id, begun: begun})
	if begun {
		return
	}
	w.try(m.extend(&w.n, id), Op{words: "sql: extend id %[3]d", b: -1, x: id})
	w.try(m.list(&w.n, id), Op{words: "a sweeper finds id %[3]d due", b: -1, x: id})
	w.try(m.pastDeadline(&w.n, id),
		Op{words: "SQL's clock reaches the deadline of id %[3]d", b: -1, x: id})
	w.try(m.beginBefore(&w.n, id),
		Op{words: "a transaction about id %[3]d begins, before its deadline", b: -1, x: id})
}
