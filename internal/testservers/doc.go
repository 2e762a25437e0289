// Package testservers starts real, private Redis and MariaDB servers for tests, drills and demos.
//
// Every server listens on a free port of 127.0.0.1 and keeps its files in a directory of its own.
// The ports lie below the kernel's range for outgoing connections, so that a server which was
// killed finds its port again: no client can be given it as a source port meanwhile (a client
// that redials a dead port inside that range may even connect to itself and keep it).
//
// Nothing outlives the process that started it, however that process ends:
//
//	how the process ends          servers                      directories of tests
//	test over                     killed by tb.Cleanup         removed by tb.Cleanup
//	exit, panic, SIGINT, SIGTERM  killed by the kernel         removed by the sweeper
//	SIGKILL                       killed by the kernel         removed by the sweeper
//
// "By the kernel" is the parent-death signal (Linux). It belongs to the thread that started the
// server, so all of them are started by one thread that lives as long as the process. The
// sweeper is a shell in a session of its own, which waits for the end of a pipe that only this
// process holds open. Outside Linux a server outlives a process that was killed.
//
// Test directories are made in the folder named by BUDGETD_TEST_TMP; without it in memory
// (/dev/shm) where that has 4 GiB to spare, or else in os.TempDir. Whatever a test loses with a
// server it loses there too: a process that is killed leaves the kernel what it has written,
// flushed or not.
//
// The test binaries of one run share one MariaDB and one Redis (SharedMariaDB, SharedRedis) where
// the command lend, which scripts/test.sh uses, has started them; otherwise each starts its own.
//
// A missing redis-server or mariadbd is a failure with instructions, never a skipped test.
package testservers
