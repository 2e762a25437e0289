// Package books has the rows of the accounting in memory, and the movements between them as pure
// functions: load, decide, save.
//
// A transaction loads the rows that a movement may touch into Books, under their locks. The
// movement changes rows by assignment, and adds new ones. Check then compares the sum of what was
// changed with the equation of I1 and with the rows that explain it. Package bookkeeper loads Books
// and writes what differs, each in one round trip.
//
//	rows.go    the rows: one struct per table, one field per column
//	set.go     the rows of one table, as they were and as they are
//	books.go   all tables of a transaction, and Check
//	steps.go   the steps that movements are made of
//	create.go  a new budget
//	adjust.go  appends and shrinks
//	supply.go  apply, offline, online
//	change.go  a changed definition, and another number of buckets
//	returns.go what deductions give back: rollback, cancel, confirm, extend, expiry
package books
