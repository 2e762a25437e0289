package crashpoints

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// step is one call of a store or of SQL: the nth of its name within an operation or a recovery.
type step struct {
	name  string
	nth   int
	store bool // of a store, and not of SQL
	file  bool // a write of a file
	write bool // it may change something
	last  bool // the last operation of a call
	done  bool // it was done: a store may refuse it before
}

func (s step) String() string { return s.name + "#" + strconv.Itoa(s.nth) }

// sqlReads are the methods of bucket.SQL that change nothing (TestReadsChangeNothing); every other one may.
var sqlReads = []string{"Budget", "Versions", "At", "Recorded", "Judge", "Covers", "Epochs", "Stale", "Unfinished",
	"UnfinishedOf", "Live", "Figures", "Accounts", "LaneRows", "Spans", "SilentUses", "LaneUses", "Unsettled",
	"Over", "KnownLanes", "OpenHolds", "Voids", "Demand", "RecycleHistory", "LaneLoads", "OnLane", "Departed",
	"CheckLimits", "LoadLimits", "ArchiveBounds", "FeedEntries"}

// storeReads are the verbs of a store that change nothing.
var storeReads = []string{"read", "balances", "identity"}

// tracer is the hook of the stores and of SQL: it notes the steps of the node that runs, and makes
// things happen at one of them. There is one node at a time.
type tracer struct {
	mu     sync.Mutex
	asked  map[string]int // calls by name, for their instants
	seen   map[string]int // calls by name since arm
	armed  bool
	from   string // of this name is the first step that is noted; "": any
	waits  bool   // for that one
	steps  []step
	at     string // the step at which something happens
	what   event
	delay  time.Duration // before that
	met    bool
	until  time.Time            // what fails as long
	whose  string               // and of whom: an instance, or "sql"
	away   map[string]time.Time // instances that cannot be reached, until when
	places int64
	dead   bool // the node: nothing it calls has an effect
	refuse int  // calls of a dead node
	stop   func()
	// holding: deductions that are sent arrive only when somebody releases them.
	holding bool
	// written is called after every write of SQL, and reading around every read.
	written func(method string)
	reading func(method string, isBefore bool)
}

// event is what happens at a step.
type event string

// The ways in which a node stops.
const (
	before  event = "before"  // the step is not sent
	late    event = "late"    // it is sent, and done when everybody has forgotten it; of a store or a file only
	applied event = "applied" // it is done, and the node does not hear so
	after   event = "after"   // the node hears the answer, and that is the last it does
)

// The ways in which a call fails. A time-out takes its time, a reset does not.
const (
	refused     event = "refused"  // certainly not done: OOM, LOADING, MISCONF, BUSY, READONLY, 1205
	forgotten   event = "NOSCRIPT" // a store does not know its scripts
	defective   event = "internal" // SQL answers what nobody expects: 1062 again and again
	timeoutNot  event = "time-out, not done"
	timeoutDone event = "time-out, done"
	timeoutLate event = "time-out, done later"
	resetNot    event = "reset, not done"
	resetDone   event = "reset, done"
	outage      event = "outage"  // this instance, or SQL, refuses everything for a while
	silence     event = "silence" // it is not heard, and nothing is done, for a while
)

// outageLasts is longer than a request waits.
const outageLasts = 3 * time.Second

// kills reports whether the event stops the node.
func (e event) kills() bool { return e == before || e == late || e == applied || e == after }

func newTracer(stop func()) *tracer {
	return &tracer{asked: map[string]int{}, seen: map[string]int{},
		away: map[string]time.Time{}, stop: stop}
}

// arm begins to note steps, and waits for one of them if at is not "".
func (t *tracer) arm(at string, what event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed, t.waits, t.steps, t.at, t.what, t.met = true, t.from != "", nil, at, what, false
	clear(t.seen)
}

// disarm ends the noting and returns the steps; met says whether the one waited for came.
func (t *tracer) disarm() (steps []step, met bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed, t.at = false, ""
	return t.steps, t.met
}

// revive lets calls through again: those of a new node.
func (t *tracer) revive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead, t.refuse = false, 0
}

// died says whether the node was stopped, and heard whether nothing was refused to it since: only
// then may its caller have had the answer.
func (t *tracer) died() (dead, heard bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dead, t.refuse == 0
}

// turn waits for the virtual instant at which a call goes on.
func (t *tracer) turn(name string) {
	t.mu.Lock()
	t.asked[name]++
	h := fnv.New32a()
	_, _ = h.Write(strconv.AppendInt([]byte(name), int64(t.asked[name]), 10))
	t.mu.Unlock()
	const spread = 50_000
	time.Sleep(time.Duration(1 + h.Sum32()%spread))
}

// begin notes a step and says what happens before it.
func (t *tracer) begin(s step) (what event, dead bool) {
	t.turn(s.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		t.refuse++
		return "", true
	}
	whose, _, _ := strings.Cut(s.name, " ")
	if time.Now().Before(t.away[whose]) {
		return refused, false
	}
	t.waits = t.waits && s.name != t.from
	if !t.armed || t.waits {
		return "", false
	}
	t.seen[s.name]++
	s.nth = t.seen[s.name]
	t.steps = append(t.steps, s)
	if whose == t.whose && time.Now().Before(t.until) {
		return t.what, false
	}
	if s.String() != t.at {
		return "", false
	}
	switch t.what {
	case before, late:
		t.met = true
		t.die()
	case refused, forgotten, defective, resetNot, timeoutNot, timeoutLate:
		t.met = true
	case outage, silence:
		t.met, t.whose, t.until = true, whose, time.Now().Add(outageLasts)
	}
	return t.what, false
}

// leaves makes an instance unreachable for a while.
func (t *tracer) leaves(instance string, lasts time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away[instance] = time.Now().Add(lasts)
}

// hold makes deductions arrive later, or lets them through again.
func (t *tracer) hold(holding bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holding = holding
}

func (t *tracer) holds(verb string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holding && verb == "deduct"
}

// gone lists the instances that cannot be reached, or could not until a moment ago.
func (t *tracer) gone() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for instance, until := range t.away {
		const moment = choresEvery / 2
		if time.Now().Before(until.Add(moment)) {
			list = append(list, instance+" cannot be reached")
		}
	}
	return list
}

// Take and Wait give the goroutines of a node that start or wake each other instants of their own
// (bucket.Turns).
func (t *tracer) Take() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.places++
	return t.places
}

// Wait sleeps until the instant of a place.
func (t *tracer) Wait(place int64) {
	const spread, stride = 50_000, 7919
	time.Sleep(time.Duration(1 + place*stride%spread))
}

// end says what happens to the answer of a step.
func (t *tracer) end(s step) (what event, dead bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return "", true
	}
	s.nth = t.seen[s.name]
	if !t.armed || t.waits {
		return "", false
	}
	for i := len(t.steps) - 1; i >= 0; i-- {
		if t.steps[i].name == s.name && t.steps[i].nth == s.nth {
			t.steps[i].done = true
			break
		}
	}
	if t.met || s.String() != t.at || !s.last {
		return "", false
	}
	switch t.what {
	case applied, after:
		t.met = true
		t.die()
	case resetDone, timeoutDone:
		t.met = true
	default:
		return "", false
	}
	return t.what, false
}

// die stops the node. t.mu is held.
func (t *tracer) die() {
	t.dead, t.refuse = true, 0
	t.stop()
}

// patience is how long a call waits for an answer that does not come.
const patience = 1500 * time.Millisecond

// store is the hook of every store.
func (t *tracer) store(c memstore.Call) memstore.Fault {
	s := step{name: c.Lane.Instance + " " + c.Verb, store: true,
		write: !slices.Contains(storeReads, c.Verb), last: c.Index == c.Of-1}
	if c.Ref != (bucket.Ref{}) {
		s.name += " " + strconv.FormatInt(c.Ref.Bucket, 10) + "." + strconv.FormatInt(c.Ref.Epoch, 10)
	}
	if c.After {
		what, dead := t.end(s)
		if what == timeoutDone {
			time.Sleep(patience)
		}
		if dead || what == applied || what == resetDone || what == timeoutDone {
			return memstore.DropReply
		}
		return memstore.Proceed
	}
	what, dead := t.begin(s)
	switch {
	case t.holds(c.Verb):
		return memstore.Postpone
	case dead || what == refused || what == outage:
		return memstore.Refuse
	case what == before || what == resetNot || what == silence:
		return memstore.DropRequest
	case what == forgotten:
		return memstore.Forgotten
	case what == timeoutNot:
		time.Sleep(patience)
		return memstore.DropRequest
	case what == late:
		return memstore.Postpone
	case what == timeoutLate:
		time.Sleep(patience)
		return memstore.Postpone
	}
	return memstore.Proceed
}

// sql is the hook of SQL.
func (t *tracer) sql(method string, isBefore bool) error {
	s := step{name: "sql " + method, write: !slices.Contains(sqlReads, method), last: true}
	if !isBefore {
		if s.write && t.written != nil {
			t.written(method)
		}
		if !s.write && t.reading != nil {
			t.reading(method, false)
		}
		what, dead := t.end(s)
		if what == timeoutDone {
			time.Sleep(patience)
		}
		if dead || what == applied || what == resetDone || what == timeoutDone {
			return budget.Refuse(budget.OutcomeUnknown, method, "no answer")
		}
		return nil
	}
	what, dead := t.begin(s)
	switch {
	case dead || what == refused || what == before || what == outage || what == silence && !s.write:
		return budget.Refuse(budget.Unavailable, method, "refused")
	case what == defective:
		return budget.Refuse(budget.Internal, method, "the database answered unexpectedly")
	case what == timeoutNot:
		time.Sleep(patience)
		if !s.write {
			return budget.Refuse(budget.Unavailable, method, "no answer")
		}
		return budget.Refuse(budget.OutcomeUnknown, method, "no answer")
	case what == resetNot || what == silence:
		return budget.Refuse(budget.OutcomeUnknown, method, "the connection was reset")
	}
	if !s.write && t.reading != nil {
		t.reading(method, true)
	}
	return nil
}

// file is the write of a file, which is there as a whole or not at all. known says that its writer knows so.
func (t *tracer) file(name string, write, postpone func()) (known bool) {
	s := step{name: name, file: true, write: true, last: true}
	what, dead := t.begin(s)
	if what == timeoutNot || what == timeoutLate {
		time.Sleep(patience)
	}
	switch {
	case what == late, what == timeoutLate:
		postpone()
		return false
	case dead, what == before, what == refused, what == resetNot, what == timeoutNot, what == outage:
		return false
	}
	write()
	what, dead = t.end(s)
	if what == timeoutDone {
		time.Sleep(patience)
	}
	return !dead && what != applied && what != resetDone && what != timeoutDone
}

// ways are those in which a node is stopped at a step. With brief, a node is stopped at a step that
// changes nothing in one way only: the others leave the very same behind.
func (s step) ways(brief bool) []event {
	switch {
	case brief && !s.write:
		return []event{before}
	case !s.last, !s.done && s.store: // answered by a later operation of the same call, or refused
		return []event{before, late}
	case s.store && s.write, s.file:
		return []event{before, late, applied, after}
	}
	return []event{before, applied, after}
}

// failures are the ways in which a step fails.
func (s step) failures() []event {
	switch {
	case s.store && s.write && s.last && s.done:
		return []event{refused, forgotten, resetNot, resetDone, timeoutNot, timeoutDone, timeoutLate, outage,
			silence}
	case s.store && s.write:
		return []event{refused, resetNot, timeoutLate}
	case s.store:
		return []event{refused, forgotten, timeoutNot, outage}
	case s.file:
		return []event{refused, resetDone, timeoutNot, timeoutDone, timeoutLate, outage}
	case s.write:
		return []event{refused, defective, resetNot, resetDone, timeoutNot, timeoutDone, outage, silence}
	}
	return []event{refused, defective, timeoutNot, outage}
}
