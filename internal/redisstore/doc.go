// Package redisstore keeps balances and logs in Redis (bucket.Instance): one client per server, one
// script per verb, many operations per call.
//
// An instance is a standalone Redis, one that sentinels name, or a Cluster with its lanes spread over the
// masters by their hash tags. An atlas says where a lane is looked for: the sentinels' or the Cluster's
// own word, the newest configuration epoch of all who answered. Nothing depends on it being right: a
// server is used for a lane only by Activate, under the identity that SQL knows, and one that does not
// serve the lane any more refuses (MOVED, READONLY). A lane is never followed to another server within
// an activation.
//
// How a lane's memory is told from one that only looks like it (DESIGN 9):
//
//	sign                                  where it is seen        answer
//	not activated by this process         Store                   ErrMemoryLost
//	scripts not known (restart, FLUSH)    NOSCRIPT to EVALSHA     ErrMemoryLost from then on
//	another run id or replication id      every new connection    ErrMemoryLost from then on
//	it is a replica                       every new connection    unavailable
//	READONLY, MOVED, ASK …                any reply               unavailable, and all connections
//	                                                              are opened and verified anew
//	another replication id, in a call     script                  ErrMemoryLost from then on
//	with records (store mode), or close
//	the hash is missing, of another       script                  EpochGone, WrongActivation,
//	activation, or behind                                         WentBack
//
// "From then on" means until Activate. The activation is part of the scripts' text and so of their
// SHA, and they are called by EVALSHA only: a Redis that lost its memory cannot run them. A lane
// runs the scripts of the activation that it was last given; an operation of another activation is
// answered WrongActivation by the script, whatever the hash says. So operations of several
// activations may share a call, a lane without its memory answers NOSCRIPT to all of them, and what
// is late finds either another number in the script or no script.
//
// Connections belong to a session, which is bound to one identity. A connection that finds another
// one is refused before anything is sent on it, so every call of a session, retried or not, went
// to that identity when its connection was opened.
//
// redis.Client's retries are off and no call is repeated here: whoever repeats knows why.
package redisstore
