// Package alert decides when a budget needs a person's attention, and what is said about it. It is
// pure: figures and thresholds in, transitions out.
//
// # States
//
// A threshold has one state per period and episode. A state goes from firing to resolved, once, and
// each of the two is told once:
//
//	(none) --crossed--> firing --total raised, period over, threshold or budget gone,
//	                             clearly below the threshold--> resolved
//
// A resolved threshold that is crossed again begins the next episode. While a state fires, the
// threshold is eased (see eased), so that a figure that moves around it does not tell the same
// story again and again.
//
// Used share, exhaustion and projection of the same units form a ladder: the budget that is used up
// has crossed all of its lower steps. Steps that change together are told in one message, which
// names the highest and lists the others.
//
// # Several nodes
//
// Every node decides; the database's rows make that safe. A decision is repeated under the lock of
// the budget's states, and figures that are not younger than the last change of a threshold do not
// change it: a slow node cannot undo what a faster one has seen.
package alert
