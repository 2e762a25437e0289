// Package strictjson reads the JSON body of a request strictly: it guesses, rounds and ignores
// nothing, and finds every fault in one pass.
//
// It refuses unknown, duplicate and case-variant members, invalid UTF-8, data after the value,
// nesting beyond 10,000 levels, null where a value is needed, and numbers with a fraction or an
// exponent. It judges numbers by their text before it converts them, so no rounding can hide a
// value out of range.
//
// A fault is one of two kinds. Malformed: the text does not have the form of the field (not JSON,
// another type, an unknown member). Invalid: the type is right, but the value is not allowed, or is
// missing. A request with a malformed field is malformed as a whole; all faults are listed.
package strictjson
