// Package memstore is the memory that tests put in the place of real stores, written to be read as
// the specification of what they do: Server with its Stores (bucket.Instance) for a Redis, SQL
// (bucket.SQL) for a database. Both have hooks through which a test drops, repeats, delays and
// loses what a network or a machine would. Nothing is persisted.
package memstore
