// Package driver connects to the servers of one Redis instance: a standalone Redis, one that
// sentinels name, or a Cluster whose masters share the partitions by hash tags. It runs scripts on
// the server that serves a partition, and classifies errors as not done or perhaps done.
//
// A topology says where to look for a partition, as reported by the sentinels or the Cluster: the
// newest configuration epoch of all answers. Correctness does not depend on it: a server that does
// not serve the partition refuses (MOVED, READONLY), and a call that depends on a memory names the
// identity that it expects.
//
// Connections belong to a session. A session may be bound to an identity; a connection that meets
// another one is then refused before anything is sent on it. redis.Client's retries are off. A call
// is repeated only after NOSCRIPT, which means that the server did nothing.
package driver
