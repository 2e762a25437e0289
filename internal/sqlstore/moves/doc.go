// Package moves has the steps by which units change place within a transaction: between what is not
// funded (F), undistributed (U), in buckets (O) and forfeited (X), and the beginnings and ends of
// epochs. Every step keeps I1 when it is taken together with the one that gives or takes its units.
//
// The caller has locked the budget's row and the epochs that it names, in the lock order of
// DESIGN 5. A step changes the rows in memory as it changes them in SQL, so that steps follow
// each other without reading again.
//
//	F, U, X    Units, Fund, TakeBack, TopUp, ComeBack, Sweep (R)
//	O          Give (U or another bucket's O into an epoch), Draw (out of epochs), HandOut
//	epochs     Begin, End, RestartCounts
//	the list   PutOnline, PutOffline, Retire, ListChanged
//	periods    OpenPeriod, InsertPeriod, Leave, Turn
//
// A step that raises O or begins an epoch answers a bucket.Level per epoch; the service sends these
// to the filters after the commit. Losing them is harmless (I9).
package moves
