// Package api has each body and each answer of the HTTP API once, as one struct for the server, the
// client and budgetctl.
//
// The tag json names a member. The tag check of a request's field says what the server requires of
// it, in words separated by spaces:
//
//	required    the member must be there
//	1..1024     the range of an integer; amount is 1 to budget.MaxAmount
//	most=N      the most elements of a list or an object; N may be the name of a bound
//	null        null stands for the zero value
//	other words the check of a text, or of each text of a list or an object
//
// Rules about several members are methods Validate. The server reads requests strictly and reports
// all faults at once; the client does not check them.
//
// Quantities are integers in minor units. An absent time is zero.
package api
