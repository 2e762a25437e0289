// Package redisstore keeps the balances of store mode in Redis (bucket.Counter and its companions).
// There is one script per operation, and a call carries many elements; package driver connects to
// the servers.
//
// A partition is packed into few keys with a field per bucket (keys.go), because commands and keys
// cost a Redis much more than fields. The scripts are in the folder lua; each header documents the
// keys, the arguments and the answer. Scripts read in bulk, decide in local variables, and write
// each key once.
//
// A script first compares the partition's marker and the server's replication id with
// those that the caller verified. The whole identity was compared when the connection was opened.
// So a call for a lost memory does nothing. No answer claims an effect that the script did not
// have, and an error says whether the effect is known (driver/errors.go).
package redisstore
