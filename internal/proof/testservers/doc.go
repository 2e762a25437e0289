// Package testservers starts real, private Redis and MariaDB servers for tests, drills and demos.
//
// Every server listens on a free port of 127.0.0.1 and keeps its files in a directory of its own.
// The ports are below the kernel's range for outgoing connections, so that a killed server gets its
// port back: no client can get it as a source port in the meantime. (A client that redials a closed
// port within that range may even connect to itself and keep the port.)
//
// No server outlives the process that started it, however that process ends:
//
//	how the process ends          servers                      directories of tests
//	test over                     killed by tb.Cleanup         removed by tb.Cleanup
//	exit, panic, SIGINT, SIGTERM  killed by the kernel         removed by the sweeper
//	SIGKILL                       killed by the kernel         removed by the sweeper
//
// The kernel kills them by the parent-death signal (Linux). That signal belongs to the thread that
// started the server, so one thread that lives as long as the process starts all of them. The
// sweeper is a shell in a session of its own that waits for the end of a pipe that only this
// process holds open. On other systems a server outlives a process that was killed.
//
// Test directories are created in the folder named by BUDGETD_TEST_TMP. Without it they are in
// memory (/dev/shm) if that has 4 GiB free, or else in os.TempDir. A file system in memory loses no
// more in a test than a disk does, because the kernel keeps what a killed process has written,
// flushed or not.
//
// The test binaries of one run share one MariaDB and one Redis (SharedMariaDB, SharedRedis) if the
// command lend has started them, which scripts/test.sh uses. Otherwise each binary starts its own.
//
// A missing redis-server or mariadbd fails the test with instructions and never skips it.
package testservers
