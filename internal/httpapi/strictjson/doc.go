// Package strictjson reads the JSON body of a request: nothing is guessed, rounded or ignored, and
// every fault is found in one pass.
//
// Refused are unknown, duplicate and case-variant members, invalid UTF-8, anything after the value,
// nesting beyond 10,000 levels, null where a value is needed, and numbers with a fraction or an
// exponent. Numbers are judged on their text before a number is made of it, so no rounding can hide
// a value out of range.
//
// Two kinds of faults are told apart. Malformed: the text is not what the field is made of (not
// JSON, another type, not known). Invalid: the right type, but not a value that is allowed, or
// missing. A request with any malformed field is malformed as a whole; all faults are listed.
package strictjson
