package driver

import (
	"context"
	"crypto/sha1" //nolint:gosec // how Redis names scripts
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/span"
)

// Script is the text of a script. No text contains a value, so a Redis has as many scripts as there
// are verbs.
type Script struct{ text, sha string }

// NewScript returns a script named by its SHA-1, as in Redis.
func NewScript(text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return &Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// Call is one run of a script.
type Call struct {
	// Op names the step in errors.
	Op        string
	Partition bucket.Partition
	// Identity is the identity that the connection must meet; "" for any. Once a new connection met
	// another one, calls fail until one with Verifies.
	Identity string
	// Verifies means that the caller found the server with this identity again, and compares it with
	// SQL before it uses the partition.
	Verifies bool
	Script   *Script
	Keys     []string
	Args     []any
}

// Run runs a script on the server that serves the partition and returns its answer. After NOSCRIPT,
// which did nothing, it sends the text once. Errors: bucket.ErrOtherMemory, Unavailable (not done),
// OutcomeUnknown, or *Rejection if the script did nothing and says why.
func (i *Instance) Run(ctx context.Context, c Call) (_ any, err error) {
	ctx, end := span.Begin(ctx, "redis", c.Op)
	defer func() { end(err) }()
	at, err := i.locate(ctx, c.Op, c.Partition)
	if err != nil {
		return nil, err
	}
	n, err := i.session(at, &c)
	if err != nil {
		return nil, err
	}
	if n.lost.Load() {
		return nil, bucket.ErrOtherMemory
	}
	p := n.enter()
	if p == nil {
		return nil, at.unavailable(c.Op, redis.ErrClosed, "it was disconnected")
	}
	defer p.leave()
	args := make([]any, 3, 3+len(c.Keys)+len(c.Args))
	args[0], args[2] = "EVALSHA", len(c.Keys)
	for _, key := range c.Keys {
		args = append(args, key)
	}
	args = append(args, c.Args...)
	w := &writeDetector{text: c.Script.sha}
	args[1] = w
	cmd := redis.NewCmd(ctx, args...)
	err = p.client.Process(ctx, cmd)
	if word, _, _ := replyOf(err); word == "NOSCRIPT" {
		args[0], args[1] = "EVAL", &writeDetector{text: c.Script.text}
		w, cmd = args[1].(*writeDetector), redis.NewCmd(ctx, args...)
		err = p.client.Process(ctx, cmd)
	}
	if err == nil {
		return cmd.Val(), nil
	}
	v := at.judge(c.Op, err, w.written)
	if !v.told {
		i.topology.doubt()
	}
	if v.moved {
		n.renew(p)
	}
	return nil, v.err
}

// writeDetector is an argument that detects when its command is written: go-redis asks it for its
// text at that moment, in the caller's goroutine. Until then no byte of the command has left,
// whatever the error says.
type writeDetector struct {
	text    string
	written bool
}

// MarshalBinary returns the argument.
func (w *writeDetector) MarshalBinary() ([]byte, error) {
	w.written = true
	return []byte(w.text), nil
}
