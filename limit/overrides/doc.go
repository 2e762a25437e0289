// Package overrides keeps copies of the overrides of budgets in store mode, whose stores judge by
// bounds that a node passes to them.
//
// A copy follows its budget by the budget's overrides version, which the node compares once a
// second with the rest of the definition. It reads what has changed since its own version, or
// everything when it has none or is far behind. A value is judged only by a copy that is as new as
// the definition.
//
// An override takes 24 bytes in a table that is filled to a half or more: a hash of the value, and
// the maximum. A node keeps up to 4,000,000 overrides, and drops the copies that were not used for
// longest.
package overrides
