// Package driver reaches the servers of one Redis instance: a standalone Redis, one that
// sentinels name, or a Cluster whose masters share the lanes by hash tags. It runs scripts on
// the server that serves a lane,
// and knows what an error means: not done, or perhaps done.
//
// An atlas says where a lane is looked for: the sentinels' or the Cluster's own word, the newest
// configuration epoch of all that answered. Nothing depends on it being right: a server that
// does not serve the lane refuses (MOVED, READONLY), and calls that depend on a memory name the
// identity that they expect.
//
// Connections belong to a session. A session may be bound to an identity; then a connection that
// meets another one is refused before anything is sent on it. redis.Client's retries are off,
// and a call is
// repeated only after NOSCRIPT, which says that the server did nothing.
package driver
