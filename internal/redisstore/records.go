package redisstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/bucket"
)

// The form of a request record: the format, and for a deduction its nonce (8 bytes), fingerprint
// (16) and seq (5 bytes, or 7 from 2^40 on; unsigned, big-endian). The format alone is a void
// record. 30 bytes take 32 of the memory of a Redis.
const (
	recordFormat = "1"
	voidRecord   = recordFormat

	nonceEnd       = len(recordFormat) + 8
	fingerprintEnd = nonceEnd + 16
)

// appendRecord adds an operation's record without the seq, which the script knows, as appendText does; "" for one that is
// not to be recorded.
func appendRecord(text []byte, o *bucket.Operation) []byte {
	if !o.Record {
		return append(text, 0)
	}
	text = append(text, byte(len(recordFormat)+len(o.Request.Nonce)+len(o.Request.Fingerprint)))
	return append(append(append(text, recordFormat...), o.Request.Nonce...), o.Request.Fingerprint...)
}

// mostIDBytes is how long a request id may be to be the field of its record itself: longer ones take more memory
// than their hash.
const mostIDBytes = 30

// recordField returns the field of an id's record: no two ids share one.
func recordField(id string) string {
	if len(id) <= mostIDBytes && !strings.HasPrefix(id, "#") {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "#" + string(sum[:20])
}

// recordedAs completes a Recorded with the record found; with one that is none it becomes Broken.
func recordedAs(reply bucket.Reply, text string) bucket.Reply {
	seqBytes := len(text) - fingerprintEnd
	switch {
	case text == voidRecord:
		reply.Record = &bucket.Record{Void: true}
		return reply
	case len(text) == 0 || text[:1] != recordFormat || seqBytes != 5 && seqBytes != 7:
		return bucket.Reply{Verdict: bucket.Broken,
			Why: fmt.Sprintf("a request record is not what it must be: %.64q", text)}
	}
	seq := int64(0)
	for i := fingerprintEnd; i < len(text); i++ {
		seq = seq<<8 | int64(text[i])
	}
	reply.Record = &bucket.Record{Seq: seq, Nonce: text[len(recordFormat):nonceEnd],
		Fingerprint: text[nonceEnd:fingerprintEnd]}
	return reply
}

// Void leaves void records. See bucket.Records.
func (s *Store) Void(ctx context.Context, at bucket.Lane, orders []bucket.VoidOrder) (
	[]bucket.Reply, error) {
	const op = "void"
	for i := range orders {
		if err := orders[i].Ref.Check(); err != nil {
			return nil, err
		}
	}
	if len(orders) == 0 {
		return nil, nil
	}
	l, err := s.find(op, at)
	if err != nil {
		return nil, err
	}
	g := groupBy(len(orders), func(i int) refMember { return refMember(orders[i].Ref) })
	keys := make([]any, 0, 4*len(g.refs))
	argv := make([]any, 0, 2+2*len(g.refs)+len(orders))
	argv = append(argv, s.config.RecordWindow.Milliseconds(), voidRecord)
	next := 0
	for n, of := range g.refs {
		ref := bucket.Ref(of)
		even, odd, void := recordKeys(l.prefix, ref)
		keys = append(keys, balanceKey(l.prefix, ref), even, odd, void)
		argv = append(argv, ref.Activation, g.counts[n])
		for _, i := range g.order[next : next+g.counts[n]] {
			argv = append(argv, recordField(orders[i].RequestID))
		}
		next += g.counts[n]
	}
	answer, err := s.eval(ctx, op, l, verbVoid, keys, argv)
	if err != nil {
		return nil, err
	}
	return s.replies(op, answer, g.order, true, bucket.PeriodOver)
}
