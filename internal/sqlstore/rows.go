package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

var _ bucket.Instance = (*Rows)(nil)

// Rows is a store whose balances and logs are rows of a database: the ledger's own, where it is a
// bucket.Direct too, or another one. Lanes share nothing but the tables; they exist so that calls
// to different lanes are not aggregated into one transaction. Safe for concurrent use.
type Rows struct {
	db       *DB
	instance string
	lanes    int

	mu     sync.Mutex
	serves map[int]int64 // lane -> activation, once activated
}

// Rows returns the store of an instance of that name with so many lanes (at least one).
func (db *DB) Rows(instance string, lanes int) *Rows {
	return &Rows{db: db, instance: instance, lanes: max(lanes, 1), serves: map[int]int64{}}
}

// Identity is that of the database, read anew: its rows are as durable as the ledger.
func (s *Rows) Identity(ctx context.Context, lane bucket.Lane) (string, error) {
	if err := s.known("identity", lane); err != nil {
		return "", err
	}
	id, err := s.db.readInstallation(ctx)
	return "sql:" + id, err
}

// Time is the database's clock.
func (s *Rows) Time(_ context.Context, lane bucket.Lane) (time.Time, error) {
	return s.db.Now(), s.known("time", lane)
}

// Activate makes this node serve an activation of the lane.
func (s *Rows) Activate(ctx context.Context, lane bucket.Lane, identity string,
	activation int64) error {
	if err := s.known("activate", lane); err != nil {
		return err
	}
	if !budget.ValidAmount(activation) {
		return budget.Refuse(budget.Invalid, "activate", "activation %d must be 1 to %d", activation,
			budget.MaxAmount)
	}
	is, err := s.Identity(ctx, lane)
	if err != nil {
		return err
	}
	if identity != is {
		return bucket.ErrMemoryLost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serves[lane.Index] = activation
	return nil
}

func (s *Rows) known(op string, lane bucket.Lane) error {
	if lane.Instance != s.instance || lane.Index < 0 || lane.Index >= s.lanes {
		return budget.Refuse(budget.Unavailable, op, "instance %s has no lane %s/%d", s.instance,
			lane.Instance, lane.Index)
	}
	return nil
}

// activation returns what the lane was activated for. Errors: Unavailable for a lane of another
// instance, ErrMemoryLost before the first Activate.
func (s *Rows) activation(op string, lane bucket.Lane) (int64, error) {
	if err := s.known(op, lane); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	activation, activated := s.serves[lane.Index]
	if !activated {
		return 0, bucket.ErrMemoryLost
	}
	return activation, nil
}

// Open creates balances and entries 0. See bucket.Store.
func (s *Rows) Open(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) (
	[]bucket.Reply, error) {
	return change(ctx, s, "open", lane, refs, bucket.Ref.Check, sameRef, (*lives).open)
}

// Grant adds numbered grants. See bucket.Store.
func (s *Rows) Grant(ctx context.Context, lane bucket.Lane, orders []bucket.GrantOrder) (
	[]bucket.Reply, error) {
	return change(ctx, s, "grant", lane, orders,
		func(o bucket.GrantOrder) error { return o.Check() },
		func(o bucket.GrantOrder) bucket.Ref { return o.Ref }, (*lives).grant)
}

// Deduct takes amounts. See bucket.Store. Record is not looked at: the ledger's primary key decides.
func (s *Rows) Deduct(ctx context.Context, lane bucket.Lane, operations []bucket.Operation) (
	[]bucket.Reply, error) {
	return change(ctx, s, "deduct", lane, operations, checkOperation, operationRef, (*lives).deduct)
}

// Close ends epochs. See bucket.Store.
func (s *Rows) Close(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) (
	[]bucket.Reply, error) {
	return change(ctx, s, "close", lane, refs, bucket.Ref.Check, sameRef, (*lives).close)
}

func sameRef(ref bucket.Ref) bucket.Ref          { return ref }
func checkOperation(o bucket.Operation) error    { return o.Check() }
func operationRef(o bucket.Operation) bucket.Ref { return o.Ref }

// checkAll returns what is wrong with the first malformed operation.
func checkAll[In any](in []In, check func(In) error) error {
	for _, input := range in {
		if err := check(input); err != nil {
			return err
		}
	}
	return nil
}

// change does the operations of a call in one transaction, in order.
func change[In any](ctx context.Context, s *Rows, op string, lane bucket.Lane, inputs []In,
	check func(In) error, ref func(In) bucket.Ref, do func(*lives, In) bucket.Reply) (
	[]bucket.Reply, error) {
	if err := checkAll(inputs, check); err != nil || len(inputs) == 0 {
		return nil, err
	}
	serves, err := s.activation(op, lane)
	if err != nil {
		return nil, err
	}
	positions := make([]position, len(inputs))
	for i, input := range inputs {
		positions[i] = at(ref(input))
	}
	var replies []bucket.Reply
	var tried *life
	err = s.db.write(ctx, op, func(t *tx) error {
		l, err := t.lockLives(positions, serves)
		if err != nil {
			return err
		}
		if t.unsure && tried != nil {
			if done, err := t.wrote(tried); err != nil || done {
				return err
			}
		}
		replies = make([]bucket.Reply, len(inputs))
		for i, input := range inputs {
			replies[i] = do(l, input)
		}
		tried, err = l.write()
		return err
	})
	if err != nil {
		return nil, err
	}
	return replies, nil
}

// life is a row of store_balance: an epoch as the store knows it.
type life struct {
	Bucket     int64  `db:"bucket_id"`
	Epoch      int64  `db:"epoch"`
	Activation int64  `db:"activation"`
	Closed     int64  `db:"closed"`
	Balance    int64  `db:"balance"`
	Seq        int64  `db:"seq"`
	GrantSeq   int64  `db:"grant_seq"`
	Granted    int64  `db:"granted"`
	Deducted   int64  `db:"deducted"`
	Chain      string `db:"chain"`

	// made: not in the table yet. entries are what the transaction appended.
	made    bool
	entries []ledger.Entry
}

// broken says what is wrong with a row, "" if nothing.
func (l *life) broken() string {
	switch {
	case len(l.Chain) != ledger.ChainBytes:
		return "the chain value is not one"
	case l.Balance < 0 || l.Seq < 0 || l.GrantSeq < 0 || l.Activation < 1:
		return "a figure is negative"
	case l.Closed == 0 && l.Balance != l.Granted-l.Deducted:
		return "the balance is not what was granted less what was deducted"
	}
	return ""
}

// lives are the epochs that one transaction works on.
type lives struct {
	t      *tx
	serves int64
	rows   map[position]*life
	// newest is the newest epoch in a bucket's log.
	newest map[int64]int64
	// changed are the rows to write.
	changed []*life
}

// standing returns the verdict that an epoch gives to every operation, 0 when it is for the
// operation to decide.
func (l *lives) standing(ref bucket.Ref) (*life, bucket.Reply) {
	e := l.rows[at(ref)]
	if e == nil {
		return nil, bucket.Reply{Verdict: bucket.EpochGone}
	}
	switch why := e.broken(); {
	case why != "":
		return nil, bucket.Reply{Verdict: bucket.Broken, Why: why}
	case e.Activation != ref.Activation && !safeguard.Off(safeguard.Activation),
		ref.Activation != l.serves && !safeguard.Off(safeguard.LaneActivation):
		return nil, bucket.Reply{Verdict: bucket.WrongActivation}
	case e.Closed != 0 && !safeguard.Off(safeguard.ClosedInStore):
		return e, e.reply(bucket.EpochClosed)
	}
	return e, bucket.Reply{}
}

func (e *life) reply(v bucket.Verdict) bucket.Reply {
	return bucket.Reply{Verdict: v, Balance: e.Balance, Seq: e.Seq}
}

func (l *lives) open(ref bucket.Ref) bucket.Reply {
	e := l.rows[at(ref)]
	if e != nil {
		if why := e.broken(); why != "" {
			return bucket.Reply{Verdict: bucket.Broken, Why: why}
		}
	}
	switch {
	case e != nil && e.Closed != 0:
		return e.reply(bucket.EpochClosed)
	case ref.Activation != l.serves:
		return bucket.Reply{Verdict: bucket.WrongActivation}
	case e != nil && e.Activation != ref.Activation:
		return e.reply(bucket.EpochClosed)
	case e != nil:
		return e.reply(bucket.Already)
	case l.newest[ref.Bucket] >= ref.Epoch && !safeguard.Off(safeguard.LateOpen):
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	e = &life{Bucket: ref.Bucket, Epoch: ref.Epoch, Activation: ref.Activation, Seq: -1, made: true}
	l.rows[at(ref)] = e
	l.newest[ref.Bucket] = ref.Epoch
	l.append(e, ledger.OpenLine(ref.Bucket, ref.Epoch, ref.Activation))
	return e.reply(bucket.OK)
}

func (l *lives) grant(o bucket.GrantOrder) bucket.Reply {
	e, stands := l.standing(o.Ref)
	switch {
	case stands.Verdict != 0:
		return stands
	case o.Number <= e.GrantSeq && !safeguard.Off(safeguard.GrantNumbers):
		return e.reply(bucket.Already)
	case o.Number > e.GrantSeq+1 && !safeguard.Off(safeguard.GrantOrder):
		return e.reply(bucket.Gap)
	case o.Amount > budget.MaxAmount-e.Balance:
		return bucket.Reply{Verdict: bucket.Broken, Why: "the balance would exceed the largest amount"}
	case l.newest[o.Ref.Bucket] > o.Ref.Epoch:
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	l.append(e, ledger.Line(ledger.KindGrant, o.Amount, decimal(o.Number)))
	e.GrantSeq, e.Balance, e.Granted = o.Number, e.Balance+o.Amount, e.Granted+o.Amount
	return e.reply(bucket.OK)
}

func (l *lives) deduct(o bucket.Operation) bucket.Reply {
	e, stands := l.standing(o.Ref)
	switch {
	case stands.Verdict != 0:
		return stands
	case o.Until > 0 && l.t.now.UnixMilli() >= o.Until && !safeguard.Off(safeguard.PeriodInStore):
		return e.reply(bucket.PeriodOver)
	case e.Seq < o.MinSeq && !safeguard.Off(safeguard.SmallestSeq):
		return e.reply(bucket.WentBack)
	case e.Balance < o.Amount && !safeguard.Off(safeguard.Balance):
		return e.reply(bucket.Insufficient)
	case l.newest[o.Ref.Bucket] > o.Ref.Epoch:
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	l.append(e, ledger.Line(ledger.KindDeduct, o.Amount, ledger.EncodeRequest(o.Request)))
	last := &e.entries[len(e.entries)-1]
	last.Amount, last.Request = o.Amount, o.Request
	e.Balance, e.Deducted = e.Balance-o.Amount, e.Deducted+o.Amount
	return e.reply(bucket.OK)
}

func (l *lives) close(ref bucket.Ref) bucket.Reply {
	e, stands := l.standing(ref)
	switch {
	case stands.Verdict == bucket.EpochClosed:
		return e.reply(bucket.Already)
	case stands.Verdict != 0:
		return stands
	case l.newest[ref.Bucket] > ref.Epoch:
		return bucket.Reply{Verdict: bucket.EpochGone}
	}
	l.append(e, ledger.Line(ledger.KindClose, e.Balance, decimal(e.GrantSeq)))
	e.Closed, e.Balance = 1, 0
	return e.reply(bucket.OK)
}

// append adds an entry to an epoch's log.
func (l *lives) append(e *life, line string) {
	if len(e.entries) == 0 {
		l.changed = append(l.changed, e)
	}
	e.Seq++
	e.Chain = ledger.Chain(e.Chain, line)
	e.entries = append(e.entries, ledger.Entry{
		Seq: e.Seq, Kind: ledger.Kind(line[1]), Chain: e.Chain, Line: line,
	})
}
