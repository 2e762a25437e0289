// The client is a module of its own, so that a program that uses it inherits none of the server's
// dependencies, and needs no newer Go than the client does.
module github.com/budgetd/budgetd/client

go 1.24

require (
	github.com/budgetd/budgetd/api v0.0.0
	github.com/budgetd/budgetd/budget v0.0.0
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
	pgregory.net/rapid v1.3.0
)

replace (
	github.com/budgetd/budgetd/api => ../api
	github.com/budgetd/budgetd/budget => ../budget
)
