// Package redisstore keeps balances in Redis: the filter of ledger mode (bucket.Filter) and the
// counters of store mode (bucket.Counter and its companions). There is one script per verb and
// many operations per
// call; package driver reaches the servers.
//
// Everything of a lane is packed into few keys with a field per bucket (keys.go), because a Redis
// charges for commands and keys much more than for fields. The scripts are in the folder lua.
// Each header has the keys, the arguments and the answer. Scripts read in bulk, decide in locals,
// and write each key once.
//
// Store mode. A script first compares the lane's marker and the server's replication id with what
// the caller verified; connections were compared with the whole identity when they were opened.
// So a call that was meant for a memory that is gone does nothing. No answer of a script says
// that something was done if
// it was not, and an error says whether that is known (driver/errors.go).
package redisstore
