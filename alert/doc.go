// Package alert decides when a budget needs a person's attention and what messages say about it. It
// is pure: figures and thresholds go in, transitions come out.
//
// # States
//
// A threshold has one state per period and episode. A state fires and is resolved once, and each
// change is reported in one message:
//
//	(none) --crossed--> firing --total raised, period over, threshold or budget gone,
//	                             clearly below the threshold--> resolved
//
// A resolved threshold that is crossed again begins the next episode. A firing state is resolved
// only when the figure passes a margin (see easing), so that a figure that moves around the
// threshold does not cause a message each time.
//
// Used share, exhaustion and projection of the same units form a ladder: a budget that is used up
// has crossed all lower steps. Steps that change together share one message, which names the
// highest and lists the others.
//
// # Several nodes
//
// Every node decides, and the database's rows make that safe. A decision is repeated under the lock
// of the budget's states. Figures that are not younger than the last change of a threshold do not
// change it, so a slow node cannot undo what a faster one has seen.
package alert
