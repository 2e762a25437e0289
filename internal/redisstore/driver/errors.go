package driver

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// refusal is an error reply of a Redis that did not execute a command.
type refusal struct {
	// advice says what it means and what to do about it.
	advice string
	// moved means that the connection no longer leads to the verified memory.
	moved bool
}

// refusals are the first words of error replies that mean: certainly not executed. A server refuses
// the first write of a script or none, and scripts read all their keys before they write, so this
// holds for scripts too. Any other error reply may come from a script in the middle of its work.
var refusals = map[string]refusal{
	"LOADING":     {advice: "it is loading its data; wait until it is done"},
	"BUSY":        {advice: "another program's script keeps it busy; see SCRIPT KILL"},
	"OOM":         {advice: "it is out of memory; raise maxmemory"},
	"MISCONF":     {advice: "it cannot persist its data; see its log and its disk"},
	"READONLY":    {advice: "it is a replica; point budgetd at the primary", moved: true},
	"NOREPLICAS":  {advice: "it has fewer replicas than min-replicas-to-write asks for"},
	"NOAUTH":      {advice: "it wants a password; set it in the configuration of the instance"},
	"WRONGPASS":   {advice: "it refuses the user name or password of the instance"},
	"NOPERM":      {advice: "its ACL does not let this user do that; see docs/OPERATIONS.md"},
	"MASTERDOWN":  {advice: "it is a replica without its primary", moved: true},
	"CLUSTERDOWN": {advice: "its cluster does not serve"},
	"CROSSSLOT":   {advice: "its cluster does not keep the keys of a partition in one slot"},
	"TRYAGAIN":    {advice: "its cluster is moving the partition", moved: true},
	"MOVED": {
		advice: "its cluster keeps the partition on another server; topology: cluster follows it",
		moved:  true,
	},
	"ASK":      {advice: "its cluster is moving the partition to another server", moved: true},
	"NOSCRIPT": {advice: "it does not keep scripts"},
	"WRONGTYPE": {
		advice: "a key of the partition has contents that budgetd did not write; drain it or give it up",
	},
	// Errors of the scripts themselves.
	"ARGUMENTS": {advice: "budgetd and its scripts disagree; please report it"},
}

// First words of a script's error reply before it wrote anything.
const (
	// wordOtherMemory: the marker or the replication id is not the caller's.
	wordOtherMemory = "OTHERMEMORY"
	// wordTold: the script needs other arguments, which the rest of the reply names.
	wordTold = "TOLD"
)

// Rejection is the reply of a script that did nothing.
type Rejection struct{ Text string }

// Error returns the script's reply.
func (t *Rejection) Error() string { return t.Text }

// replyOf returns the error reply in err's chain and its first word. ok is false if err is not an
// error reply of a Redis.
func replyOf(err error) (word, text string, ok bool) {
	var reply redis.Error
	if err == nil || !errors.As(err, &reply) || errors.Is(err, redis.Nil) {
		return "", "", false
	}
	text = reply.Error()
	word, _, _ = strings.Cut(text, " ")
	if strings.Contains(text, "The user executing the script") { // Redis 7.0 omits the word
		word = "NOPERM"
	}
	return word, text, true
}

// verdict is the meaning of an error for a call.
type verdict struct {
	err error
	// moved means that every connection must be verified again.
	moved bool
	// told means that the server is well and the script refused.
	told bool
}

// judge translates the error of a call, once. written reports whether any byte of the command may
// have left this process.
//
//	ErrOtherMemory   the connection met another identity, or the script reported one
//	*Rejection            the script said so
//	Unavailable      never sent (dial, pool, context), or a reply in refusals
//	OutcomeUnknown   everything else: timeout or reset after sending, other error replies
func (at server) judge(op string, err error, written bool) verdict {
	if errors.Is(err, bucket.ErrOtherMemory) {
		return verdict{err: bucket.ErrOtherMemory}
	}
	if word, text, ok := replyOf(err); ok {
		switch r, known := refusals[word]; {
		case word == wordOtherMemory:
			return verdict{err: bucket.ErrOtherMemory, moved: true}
		case word == wordTold:
			return verdict{err: &Rejection{strings.TrimPrefix(text, wordTold+" ")}, told: true}
		case known:
			return verdict{err: at.unavailable(op, err, r.advice), moved: r.moved}
		}
	}
	if !written {
		var known *budget.Error // of the connection's own checks
		if errors.As(err, &known) && known.Code == budget.Unavailable {
			return verdict{err: known}
		}
		return verdict{err: at.unavailable(op, err, "it cannot be reached")}
	}
	return verdict{err: &budget.Error{Code: budget.OutcomeUnknown, Op: op, Err: err,
		Message: at.String() + " did not say whether it executed the call"}}
}

// judgeRead translates the error of a call that changes nothing, whose outcome is never unknown.
func (at server) judgeRead(op string, err error) error { return at.judge(op, err, false).err }

func (at server) unavailable(op string, err error, why string) *budget.Error {
	return &budget.Error{Code: budget.Unavailable, Op: op, Err: err, Reason: budget.ReasonStoreDown,
		Message: at.String() + ": " + why}
}

// server is one Redis of an instance, as named in errors. addr "" means the instance as a whole.
type server struct{ instance, addr string }

func (at server) String() string {
	if at.addr == "" {
		return "instance " + at.instance
	}
	return "instance " + at.instance + " (" + at.addr + ")"
}

// refused carries an error out of a connection's set-up: go-redis unwraps such errors once, which
// must not reach into a *budget.Error.
type refused struct{ err error }

func (r refused) Error() string { return r.err.Error() }
func (r refused) Unwrap() error { return r.err }
