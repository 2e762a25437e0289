// Package access decides who may do what. It is pure: values go in, a decision comes out. It reads
// no clock, no file and no database.
//
// # Keys
//
// A caller proves who it is with a Token, `bdg_<id>_<secret>_<checksum>`, or with a client
// certificate. The database keeps a Key: the id and the SHA-256 of the secret, never the secret.
// A Book holds the keys in memory, so that a deduction is authenticated without a query.
//
// # Roles
//
// The roles form one chain, and each includes those before it:
//
//	read < deduct < rollback < operator < admin
//
// A chain is less exact than a set of permissions: an operator may also deduct. It is chosen
// because one least role per call can be read, tested and explained; an administrator can issue
// keys of any role anyhow. Calls lists every call with its least role. Two things need more than
// the least role of their call: taking back what another principal deducted, and changing more of a
// budget than whether it is paused. Call.More has the role for these.
//
// A Delegate stands beside the chain. It acts within a subtree, one budget and those that were
// carved out of it, and makes the calls that Call.Delegates names. So each agent can have a budget
// that it divides further, and no agent can reach the units of another.
//
// # Scope
//
// A principal acts within a Scope: one tenant or all, and all budgets, or some by name patterns or
// by a subtree. What is
// outside the scope answers as if it did not exist. Principal.May checks the role first and the
// scope second, so that a refusal tells nothing about what exists.
package access
