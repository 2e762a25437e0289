// Package ring assigns keys to nodes by consistent hashing with virtual nodes: when a node is added
// or removed, only its own keys move. budgetd uses it twice. It maps a routing key to an online
// bucket, and it maps a bucket to an instance when the bucket is created or moved.
//
// # The circle
//
// [Hash] maps every string to a number in 0 … 2^31-1; 0 follows 2^31-1. Each node puts
// pointsPerNode points on that circle, at the hashes of its labels name&&VN0, name&&VN1, … A key
// belongs to the node that owns the first point at or after the key's hash, clockwise:
//
//	0 ──a───c──────k──b──a───────c── 2^31-1, then 0 again
//	               │
//	               └ key k belongs to b; without b, to a; without a and b, to c
//
// "Without x" means that x's points are skipped. The result is the same as on a ring that was built
// without x. A caller that finds a node exhausted or unreachable therefore continues where the
// node's keys would go if it were removed, and no other key moves.
//
// # Balance
//
// This table has the keys of the busiest node divided by the mean, for 100 nodes and 1,000,000
// keys. Each figure is the worst of four naming schemes. TestBalance requires at most 1.15 for
// 1,000 points:
//
//	points per node     10     50    100    200  1,000
//	busiest ÷ mean    2.40   1.46   1.29   1.19   1.09
//
// # The hash
//
// The hash is 32-bit FNV-1a followed by mixing. The parameters (offset 2166136261, prime 16777619)
// are those that Fowler, Noll and Vo published for 32 bits. The mixing steps (<<13, >>7, <<3, >>17,
// <<5) are those of the "modified FNV", as in the Java class FNVHash that many consistent-hashing
// rings use. testdata/hash.tsv and testdata/lookup.tsv fix the result bit by bit, so that other
// implementations place keys alike. Without the mixing, labels of the form host#i gave the busiest
// of 100 nodes 1.27 to 1.55 times the mean, at 1,000 points per node.
//
// The arithmetic is signed, and the last step makes negative values positive. In Java
// Math.abs(MIN_VALUE) stays negative; here that value counts as 0. It cannot occur: the last step
// multiplies a number that is not negative by 33, and 33·v = 2^31 modulo 2^32 has the one solution
// v = 2^31. (All 2^32 states were also tried: none gives it, and the hash takes 7/9 of the 2^31
// values.)
//
// # Points that collide
//
// With 31 bits some points share a place. Two names whose FNV-1a states differ only in a few low
// bits share many: of the labels 712&&VN0 … 15 and 33963&&VN0 … 15, eight pairs collide. The order
// of the points is therefore total and does not depend on the order in which nodes are given.
// Points are ordered by hash, then by label number i, then by name, ascending where i is even and
// descending where it is odd. The alternation lets two such nodes share their places instead of
// starving one of them.
package ring
