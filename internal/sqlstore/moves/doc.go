// Package moves has the steps that move units within a transaction, between unfunded (F),
// undistributed (U), buckets (O) and forfeited (X), and that begin and end epochs. A step keeps I1
// together with the one that gives or takes its units.
//
// The caller has locked the budget's row and the named epochs, in the lock order of package rows. A
// step changes the rows in memory as it changes them in SQL, so that the next step need not read
// them again.
//
//	F, U, X    Units, ComeBack, Sweep (R)
//	O          Give (U or another bucket's O into an epoch), Draw (out of epochs)
//	epochs     Begin, End, RestartCounts
//	the list   PutOnline, PutOffline, ListChanged
//	periods    OpenPeriod, InsertPeriod, Leave, Turn
package moves
