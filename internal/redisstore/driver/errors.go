package driver

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// refusal is a reply that a Redis gives instead of executing a command.
type refusal struct {
	// advice says what it means and what to do about it.
	advice string
	// moved says that the connection no longer leads to the memory that was verified.
	moved bool
}

// refusals are the first words of error replies that say: certainly not executed. A server
// refuses the first write of a script or none, and scripts write nothing before all their keys
// were read, so this is
// true of scripts too. Any other error reply may come from a script that was under way.
var refusals = map[string]refusal{
	"LOADING":     {advice: "it is loading its data; wait until it is done"},
	"BUSY":        {advice: "a script of somebody else keeps it busy; see SCRIPT KILL"},
	"OOM":         {advice: "it is out of memory; raise maxmemory"},
	"MISCONF":     {advice: "it cannot persist its data; see its log and its disk"},
	"READONLY":    {advice: "it is a replica; point budgetd at the primary", moved: true},
	"NOREPLICAS":  {advice: "it has fewer replicas than min-replicas-to-write asks for"},
	"NOAUTH":      {advice: "it wants a password; set it in the configuration of the instance"},
	"WRONGPASS":   {advice: "it refuses user name or password of the instance"},
	"NOPERM":      {advice: "its ACL does not let this user do that; see docs/OPERATIONS.md"},
	"MASTERDOWN":  {advice: "it is a replica without its primary", moved: true},
	"CLUSTERDOWN": {advice: "its cluster does not serve"},
	"CROSSSLOT":   {advice: "its cluster does not keep the keys of a lane in one slot"},
	"TRYAGAIN":    {advice: "its cluster is moving the lane", moved: true},
	"MOVED": {
		advice: "its cluster keeps the lane on another server; topology: cluster follows it",
		moved:  true,
	},
	"ASK":      {advice: "its cluster is moving the lane to another server", moved: true},
	"NOSCRIPT": {advice: "it does not keep scripts"},
	"WRONGTYPE": {
		advice: "a key of the lane holds what budgetd did not write; drain or give up the lane",
	},
	// Of the scripts themselves.
	"ARGUMENTS": {advice: "budgetd and its scripts disagree; please report it"},
}

// Words that scripts begin an error reply with before they wrote anything.
const (
	// wordOtherMemory: the marker or the replication id is not the caller's.
	wordOtherMemory = "OTHERMEMORY"
	// wordTold: the script needs other arguments; the rest of the reply says which.
	wordTold = "TOLD"
)

// Told is what a script says instead of doing anything.
type Told struct{ Text string }

// Error returns what the script said.
func (t *Told) Error() string { return t.Text }

// replyOf returns the error reply in err's chain and the word that it begins with; ok is false
// when
// err is not an error reply of a Redis.
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

// verdict is what an error means for a call.
type verdict struct {
	err error
	// moved: every connection must be verified again.
	moved bool
	// told: the server is well, the script refused.
	told bool
}

// judge translates the error of a call, once. written says whether any byte of the command may
// have left
// this process.
//
//	ErrOtherMemory   the connection met another identity, or the script said so
//	*Told            the script said so
//	Unavailable      never sent (dial, pool, context), or a reply in refusals
//	OutcomeUnknown   everything else: time-out or reset after sending, other error replies
func (at server) judge(op string, err error, written bool) verdict {
	if errors.Is(err, bucket.ErrOtherMemory) {
		return verdict{err: bucket.ErrOtherMemory}
	}
	if word, text, ok := replyOf(err); ok {
		switch r, known := refusals[word]; {
		case word == wordOtherMemory:
			return verdict{err: bucket.ErrOtherMemory, moved: true}
		case word == wordTold:
			return verdict{err: &Told{strings.TrimPrefix(text, wordTold+" ")}, told: true}
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
		Message: at.String() + " did not say what it did"}}
}

// judgeRead translates the error of a call that changes nothing: it is never unknown.
func (at server) judgeRead(op string, err error) error { return at.judge(op, err, false).err }

func (at server) unavailable(op string, err error, why string) *budget.Error {
	return &budget.Error{Code: budget.Unavailable, Op: op, Err: err, Reason: budget.ReasonStoreDown,
		Message: at.String() + ": " + why}
}

// server is one Redis of an instance, as errors name it. addr "": the instance as a whole.
type server struct{ instance, addr string }

func (at server) String() string {
	if at.addr == "" {
		return "instance " + at.instance
	}
	return "instance " + at.instance + " (" + at.addr + ")"
}

// refused carries an error out of a connection's set-up: go-redis unwraps what it gets from
// there
// once, which must not reach into a *budget.Error.
type refused struct{ err error }

func (r refused) Error() string { return r.err.Error() }
func (r refused) Unwrap() error { return r.err }
