package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Read reads logs, all in one round trip, but for those that have nothing new up to where they are read: for these it
// asks whether there is anything further on. See bucket.Log. Errors: Unavailable, ErrMemoryLost.
func (s *Store) Read(ctx context.Context, at bucket.Lane, cursors []bucket.Cursor, limit int) (
	[]bucket.Extract, error) {
	for _, c := range cursors {
		if err := c.Check(); err != nil {
			return nil, err
		}
	}
	near := func(c bucket.Cursor) (from, to string, count int) { // there are fewer ids than count
		return entryID(c.Ref.Epoch, c.From), entryID(c.Ref.Epoch, lastRead(c.From, limit)), limit + maxTogether
	}
	answers, err := s.ranges(ctx, at, cursors, near)
	if err != nil {
		return nil, err
	}
	out := make([]bucket.Extract, len(cursors))
	var still []bucket.Cursor
	var of []int
	for i, c := range cursors {
		out[i] = extract(c, limit, answers[i])
		if n := len(out[i].Entries); out[i].Err == nil && (n == 0 || out[i].Entries[n-1].Seq == c.From) {
			still, of = append(still, c), append(of, i)
		}
	}
	further, err := s.ranges(ctx, at, still, func(c bucket.Cursor) (from, to string, count int) {
		return "(" + entryID(c.Ref.Epoch, lastRead(c.From, limit)), strconv.FormatInt(c.Ref.Epoch, 10), 1 // to the epoch's end
	})
	if err != nil {
		return nil, err
	}
	for j, i := range of {
		if found, is := further[j].([]any); !is || len(found) == 0 {
			continue
		}
		// What is before that is there by now, if there is anything.
		again, err := s.ranges(ctx, at, still[j:j+1], near)
		if err != nil {
			return nil, err
		}
		out[i] = extract(still[j], limit, again[0], further[j])
	}
	return out, nil
}

// ranges asks for a range of ids of each log, all in one round trip. A log that is none is answered with a
// *ledger.Mismatch.
func (s *Store) ranges(ctx context.Context, at bucket.Lane, cursors []bucket.Cursor,
	of func(bucket.Cursor) (from, to string, count int)) ([]any, error) {
	const op = "read"
	commands, from, err := s.pipeline(ctx, op, at, len(cursors), func(l *lane, i int) []any {
		first, last, count := of(cursors[i])
		return []any{"XRANGE", logKey(l.prefix, cursors[i].Ref.Bucket), first, last, "COUNT", count}
	})
	if err != nil {
		return nil, err
	}
	out := make([]any, len(cursors))
	for i, command := range commands {
		answer, err := command.Result()
		out[i] = answer
		if wrong := wrongType(err); wrong != "" {
			out[i] = &ledger.Mismatch{Why: "the log is not a stream"}
		} else if err != nil {
			return nil, from.failed(op, err)
		}
	}
	return out, nil
}

// maxTogether is how many entries of a log one of the stream holds at most: MOST_TOGETHER of lua/shared.lua.
const maxTogether = 128

// lastRead is up to which id entries from a position on are read, so that there are limit of them if the log has so
// many: the last of them may be anywhere in one of the stream.
func lastRead(from int64, limit int) int64 {
	return min(from+int64(limit)+maxTogether-2, budget.MaxAmount)
}

// extract reads answers of XRANGE that follow each other. It ends at the first entry that is not one, or that does not
// follow its predecessor.
func extract(c bucket.Cursor, limit int, answers ...any) (out bucket.Extract) {
	broken := func(format string, args ...any) bucket.Extract {
		out.Err = &ledger.Mismatch{Why: fmt.Sprintf(format, args...)}
		return out
	}
	var elements []any
	for _, answer := range answers {
		switch answer := answer.(type) {
		case []any:
			elements = append(elements, answer...)
		case *ledger.Mismatch:
			out.Err = answer
			return out
		default:
			return broken("the log was answered as %T", answer)
		}
	}
	out.Entries = make([]ledger.Entry, 0, min(limit, maxTogether*len(elements)))
	for _, element := range elements {
		last, texts, wrong := entriesOf(c.Ref.Epoch, element)
		if wrong != "" {
			return broken("%s", wrong)
		}
		seq := last - int64(len(texts)/2)
		for i := 1; i < len(texts); i += 2 {
			seq++
			if seq < c.From {
				continue
			}
			n := len(out.Entries)
			if n == limit {
				return out
			}
			if n > 0 && seq != out.Entries[n-1].Seq+1 {
				return broken("log entry %d follows entry %d", seq, out.Entries[n-1].Seq)
			}
			text, _ := texts[i].(string)
			entry, err := ledger.ParseEntry(seq, text)
			if err != nil {
				return broken("%s", err)
			}
			out.Entries = append(out.Entries, entry)
		}
	}
	return out
}

// entriesOf reads an entry of the stream: the position of the last entry of the log in it, and its fields. wrong is
// what it is instead, "" if nothing.
func entriesOf(epoch int64, element any) (last int64, fields []any, wrong string) {
	pair, ok := element.([]any)
	if !ok || len(pair) != 2 {
		return 0, nil, fmt.Sprintf("an entry was answered as %T", element)
	}
	id, _ := pair[0].(string)
	digits, ours := strings.CutPrefix(id, strconv.FormatInt(epoch, 10)+"-")
	last, err := strconv.ParseInt(digits, 10, 64)
	if !ours || err != nil {
		return 0, nil, fmt.Sprintf("log entry %.40q is not of epoch %d", id, epoch)
	}
	fields, ok = pair[1].([]any)
	if !ok || len(fields) < 2 || len(fields)%2 != 0 || int64(len(fields)/2) > min(last+1, maxTogether) {
		return 0, nil, fmt.Sprintf("log entry %d has %d fields and values", last, len(fields))
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i] != logField {
			return 0, nil, fmt.Sprintf("log entry %d has other fields than %q", last, logField)
		}
	}
	return last, fields, ""
}

// Balances reads balance hashes, all in one round trip. See bucket.Log. Errors: Unavailable,
// ErrMemoryLost.
func (s *Store) Balances(ctx context.Context, at bucket.Lane, refs []bucket.Ref) (
	[]bucket.Balance, error) {
	const op = "balances"
	for _, ref := range refs {
		if err := ref.Check(); err != nil {
			return nil, err
		}
	}
	commands, from, err := s.pipeline(ctx, op, at, len(refs), func(l *lane, i int) []any {
		return []any{"HMGET", balanceKey(l.prefix, refs[i]), "state", "activation", "balance",
			"seq", "grant_seq", "granted", "deducted", "chain"}
	})
	if err != nil {
		return nil, err
	}
	out := make([]bucket.Balance, len(refs))
	for i, command := range commands {
		answer, err := command.Result()
		if wrong := wrongType(err); wrong != "" {
			out[i] = bucket.Balance{Verdict: bucket.Broken, Why: "the balance is not a hash"}
		} else if err != nil {
			return nil, from.failed(op, err)
		} else {
			out[i] = balanceOf(answer)
		}
	}
	return out, nil
}

// balanceOf reads the answer of an HMGET; it refuses what the scripts refuse (shared.lua).
func balanceOf(answer any) bucket.Balance {
	values, _ := answer.([]any)
	if len(values) != 8 {
		return bucket.Balance{Verdict: bucket.Broken, Why: "the balance was answered as something else"}
	}
	var text [8]string
	missing := 0
	for i, value := range values {
		if value == nil {
			missing++
		}
		text[i], _ = value.(string)
	}
	if missing == len(values) {
		return bucket.Balance{Verdict: bucket.EpochGone}
	}
	out := bucket.Balance{Verdict: bucket.OK, Closed: text[0] == "closed"}
	broken := ""
	whole := func(i int, name string, most int64) int64 {
		n, err := strconv.ParseInt(text[i], 10, 64)
		if broken == "" &&
			(err != nil || n < 0 || n > most || strconv.FormatInt(n, 10) != text[i]) {
			broken = name
		}
		return n
	}
	if text[0] != "open" && text[0] != "closed" {
		broken = "state"
	}
	whole(1, "activation", budget.MaxAmount)
	out.Balance = whole(2, "balance", budget.MaxAmount)
	out.Seq = whole(3, "seq", budget.MaxAmount)
	out.GrantSeq = whole(4, "grant_seq", budget.MaxAmount)
	const mostSum = 1e18 - 1
	out.Granted, out.Deducted = whole(5, "granted", mostSum), whole(6, "deducted", mostSum)
	if broken == "" && len(text[7]) != ledger.ChainBytes {
		broken = "chain"
	}
	if broken != "" {
		return bucket.Balance{Verdict: bucket.Broken,
			Why: "field " + broken + " of the balance is not what it must be"}
	}
	return out
}

// Trim forgets the beginning of logs. See bucket.Log.
func (s *Store) Trim(ctx context.Context, at bucket.Lane, cursors []bucket.Cursor) error {
	const op = "trim"
	if len(cursors) == 0 {
		return nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return err
	}
	keys, argv := make([]any, 0, len(cursors)), make([]any, 0, 2*len(cursors))
	for _, c := range cursors {
		if err := c.Check(); err != nil {
			return err
		}
		keys = append(keys, logKey(l.prefix, c.Ref.Bucket))
		argv = append(argv, c.Ref.Epoch, c.From)
	}
	_, err = s.eval(ctx, op, l, verbTrim, keys, argv)
	return err
}

// Discard deletes logs that end beyond their bucket's newest epoch. See bucket.Log.
func (s *Store) Discard(ctx context.Context, at bucket.Lane, ends []bucket.LogEnd) ([]bool, error) {
	const op = "discard"
	if len(ends) == 0 {
		return nil, nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return nil, err
	}
	keys, argv := make([]any, 0, len(ends)), make([]any, 0, 2*len(ends))
	for _, e := range ends {
		if err := e.Ref.Check(); err != nil {
			return nil, err
		}
		keys = append(keys, logKey(l.prefix, e.Ref.Bucket))
		argv = append(argv, e.Ref.Epoch, e.Last)
	}
	answer, err := s.eval(ctx, op, l, verbDiscard, keys, argv)
	if err != nil {
		return nil, err
	}
	values, _ := answer.([]any)
	out := make([]bool, len(ends))
	for i := range min(len(values), len(out)) {
		out[i] = values[i] == int64(1)
	}
	return out, nil
}

// Leave deletes the logs and the counters of buckets that have left the lane. See bucket.Log.
func (s *Store) Leave(ctx context.Context, at bucket.Lane, refs []bucket.Ref) error {
	const op = "leave"
	if len(refs) == 0 {
		return nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return err
	}
	keys, argv := make([]any, 0, len(refs)), make([]any, 0, len(refs))
	for _, ref := range refs {
		if err := ref.Check(); err != nil {
			return err
		}
		keys, argv = append(keys, logKey(l.prefix, ref.Bucket)), append(argv, ref.Epoch)
	}
	if _, err = s.eval(ctx, op, l, verbLeave, keys, argv); err != nil {
		return err
	}
	return s.dropCounters(ctx, op, l, refs)
}

// Forget removes balance hashes and request records. See bucket.Log.
func (s *Store) Forget(ctx context.Context, at bucket.Lane, refs []bucket.Ref) error {
	const op = "forget"
	if len(refs) == 0 {
		return nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return err
	}
	keys := make([]any, 0, 4*len(refs))
	for _, ref := range refs {
		if err := ref.Check(); err != nil {
			return err
		}
		even, odd, void := recordKeys(l.prefix, ref)
		keys = append(keys, balanceKey(l.prefix, ref), even, odd, void)
	}
	// Not DEL: records are many, and freeing them must not keep the lane waiting.
	_, err = s.command(ctx, op, l, "UNLINK", keys[0].(string), keys[1:])
	return err
}

// pipeline sends n commands in one round trip. Each command's own error reply is left to the
// caller, who gives it to answers.failed; an error here means that no answer can be used.
func (s *Store) pipeline(ctx context.Context, op string, at bucket.Lane, n int,
	command func(l *lane, i int) []any) ([]*redis.Cmd, answers, error) {
	if n == 0 {
		return nil, answers{}, nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return nil, answers{}, err
	}
	p := l.session.enter()
	if p == nil {
		return nil, answers{}, l.session.server.unavailable(op, nil, "the lane was activated anew or disconnected")
	}
	defer p.leave()
	pipe := p.client.Pipeline()
	commands := make([]*redis.Cmd, n)
	for i := range commands {
		commands[i] = pipe.Do(ctx, command(l, i)...)
	}
	from := answers{s, l.session, p}
	_, err = pipe.Exec(ctx)
	if err == nil || wrongType(err) != "" {
		return commands, from, nil
	}
	return nil, from, from.failed(op, err)
}

// answers is where the answers of a pipeline came from.
type answers struct {
	store   *Store
	session *session
	pool    *pool
}

// failed translates the error of one of them, after which connections and whereabouts may have to be
// looked at anew.
func (a answers) failed(op string, err error) error {
	a.store.atlas.doubt()
	v := a.session.server.judge(op, err, false)
	if v.moved {
		a.session.renew(a.pool)
	}
	return v.err
}

// wrongType returns the text of an error reply that says that a key holds another type, "" for
// everything else.
func wrongType(err error) string {
	if word, text, ok := replyOf(err); ok && word == "WRONGTYPE" {
		return text
	}
	return ""
}
