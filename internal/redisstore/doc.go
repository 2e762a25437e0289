// Package redisstore keeps balances in Redis: the filter of ledger mode (bucket.Filter) and the
// counters of store mode (bucket.Counter and its companions). There is one script per verb and many
// operations per call; package driver connects to the servers.
//
// A lane is packed into few keys with a field per bucket (keys.go), because a Redis charges for
// commands and keys much more than for fields. The scripts are in the folder lua; each header
// documents the keys, the arguments and the answer. Scripts read in bulk, decide in locals, and
// write each key once.
//
// In store mode a script first compares the lane's marker and the server's replication id with
// those that the caller verified; the whole identity was compared when the connection was opened. A
// call for a lost memory therefore does nothing. No answer of a script claims an effect that it did
// not have, and an error says whether that is known (driver/errors.go).
package redisstore
