// Package bookkeeper loads the rows of a movement into Books and saves what the movement changed in
// them (packages ledger/books and engine.Move): per table at most one INSERT and one UPDATE, in the
// lock order. Values are written as they are, not as differences, because their rows are locked.
package bookkeeper
