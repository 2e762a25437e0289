// Package chaos breaks a whole installation of real processes while callers use it, and then looks
// whether what they were told, the ledger and what is used are the same, to the unit and per
// request id (I1-I7).
//
// A world is MariaDB, three Redis and some budgetd built with the race detector. Every connection
// passes a proxy (testservers.Proxy), so that requests and replies can be cut, slowed and
// swallowed. Callers deduct on a hot budget that sells out, on one that cannot run out, on one
// whose total changes and on one with a limit per user and minute, repeat ids through any node,
// send them through two nodes at once, send another amount under a known id, give back parts and
// wholes, and cancel; an operator takes buckets offline and online meanwhile.
//
// A round is some strikes (Faults, alone or two together) under that load with little time to
// recover between them. After it:
//
//  1. everything works again; a caller with an open outcome repeats the id or cancels it;
//  2. within a minute nothing is half done: no epoch opening or closing, no pending grant or
//     shrink, nothing returning, fenced or behind its log, every lane verified by every node;
//  3. every accepted id is in the ledger with its amount and what was given back, every cancelled
//     one has no effect, every other one is not there, and nothing else is; the total is what the
//     appends and shrinks that were done make of it; the audit agrees through every node;
//  4. no user has more in any minute than the limit allows, and in ledger mode each counter is what
//     the ledger's rows of its user and minute sum up to;
//  5. the hot budget can be sold out to its last unit, through any node, and not one unit more.
//
// In store mode what was accepted may be lost with a store, but no more than is quarantined.
//
// By hand, from the repository's root:
//
//	go test -race -timeout 0 ./internal/chaos -run '^TestChaos$' -v -chaos.duration 10m
//	go test -race -timeout 0 ./internal/chaos -run '^TestChaos$' -v -chaos.duration -1s
//	go test -race -timeout 0 ./internal/chaos -run '^TestKills$' -v -chaos.kills 100
//
// A duration of -1s runs the whole schedule. Each prints the line that repeats it, with its seed,
// and a table of what took place. The seed orders faults and calls; when they meet is up to the
// machine.
package chaos
