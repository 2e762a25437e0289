// The model of store mode: one bucket, one partition, and with `-with drain` a second partition
// that the bucket moves to.
//
// A command that may once have been sent may run at any later time, any number of times, in every
// memory that answers for its partition. A command can be sent as soon as the SQL row that
// justifies it was written. Only a marker is sent once. SQL is lossless and each transaction is one
// step. Everything that other buckets do is one step, "sold elsewhere". The truth, which units are
// really used, is kept apart.
package main

import (
	"flag"
	"strings"
)

const (
	K = 3 // request ids
	E = 4 // epochs; the last one is kept for completion
	G = 2 // grants of an epoch
	M = 7 // incarnations
)

const ( // status of an epoch row
	none int8 = iota
	opening
	open
	closing
	closed
	lost
)

// Rec is the record of an id.
type Rec struct {
	state   int8 // 0 none, 1 used, 2 void
	e, left int8
	act     int8  // incarnation under which it was written; -1 is an older one of another partition
	rb      uint8 // rollback ids seen
	at      int8  // tick of its time slice
}

// Mem is one server's memory of the bucket's partition.
type Mem struct {
	alive     bool
	partition int8
	id        int8 // replication id
	mark      int8 // the marker key: incarnation + 1
	top       int8 // in the marker key: the newest epoch + 1 that this bucket had here
	e         int8 // the bucket's hash: epoch + 1; 0 none
	closed    bool
	moved     bool // closed for a drain
	from      int8 // epoch + 1 of the copy that was put here
	bal       int8
	taken     int8
	given     int8
	g         int8    // last grant
	late      [E]int8 // late:<epoch>
	count     int8    // limit counter
	rec       [K]Rec
}

type Epoch struct {
	status, O, S, R    int8
	partition, act     int8
	acts               uint8 // incarnations that calls for this epoch may carry
	taken, given, late int8  // as of the last sync
	grants             int8
	grant              [G]int8
	period             int8
	confirmed          bool // the store has answered open
	served             bool // SQL has said open
	moving             bool
	// answer is close's answer, held by a node: 1 found or 2 lost, balance, taken, given, g.
	answer [5]int8
}

type Partition struct {
	act     int8
	sent    uint8   // incarnations whose marker is not written yet
	ident   [M]int8 // replication id that was verified
	since   [M]int8 // the incarnation with which that memory began; an older one only with durable
	checked bool    // the server is the one that was verified, as far as anybody can know
}

// Sync is what a node has read of a memory and has not yet written to SQL.
type Sync struct {
	partition, act, e, taken, given int8
	late                            [E]int8
}

type State struct {
	U, Q, other       int8 // other: sold by other buckets
	cur               int8
	epoch             [E]Epoch
	partition         [2]Partition
	mem               [2]Mem // 1: the other master after a split, or the second partition
	snap              Mem    // what a replica or a file holds
	sync              Sync
	copy              Mem  // -with drain: what a node has read and may still write; alive: read
	copied            int8 // epoch + 1 of the copy that was written
	ids               int8 // replication ids given out
	clock             int8 // 1: the period is over
	now               int8 // -with slices: ticks; a slice is two
	calls             [K]uint8
	faults            int8
	forgot            bool // records were lost: I4 and I5 are out of their bounds
	gap               bool // a hash was lost
	released, assumed int8
	// The truth.
	times, out, outE [K]int8
	asked            [K]uint8
	void             [K]bool
	bad              int8
}

// Op is a move and its arguments, for the trace.
type Op struct {
	name       string
	a, b, c, d int8
}

var problems = []string{
	"",
	"I4: a cancelled id took effect",
	"period: deducted after the end",
	"I5: a record of the present memory cannot be rolled back",
}

var (
	with     = flag.String("with", "", "features, see README.md")
	total    = flag.Int("total", 1, "T")
	ids      = flag.Int("ids", 2, "request ids")
	amounts  = flag.String("amounts", "111", "their amounts")
	epochs   = flag.Int("epochs", 2, "epochs")
	maxFault = flag.Int("faults", 1, "faults")
	kinds    = flag.String("kinds", "", "kinds of faults, see README.md")
	undo     = flag.String("undo", "0", "ids that may be rolled back")
	cancels  = flag.String("cancel", "-", "ids that may be cancelled")
	mutant   = flag.String("mut", "", "take these safeguards out")
)

var feature = map[string]bool{}

func mut(m string) bool        { return word(*mutant, m) }
func amount(k int8) int8       { return int8((*amounts)[k] - '0') }
func word(l, w string) bool    { return strings.Contains(","+l+",", ","+w+",") }
func in(l string, k int8) bool { return strings.ContainsRune(l, rune('0'+k)) }
func limited(k int8) bool      { return feature["limit"] && k < 2 }

// part returns the number of units that one rollback asks for.
func part(k int8) int8 {
	if feature["parts"] {
		return 1
	}
	return amount(k)
}
