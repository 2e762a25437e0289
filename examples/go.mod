// The examples are a module of their own: they need the client and nothing of the server.
module github.com/budgetd/budgetd/examples

go 1.24

require (
	github.com/budgetd/budgetd/budget v0.0.0
	github.com/budgetd/budgetd/client v0.0.0
)

require (
	github.com/budgetd/budgetd/api v0.0.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2 // indirect
	github.com/google/uuid v1.6.0 // indirect
)

replace (
	github.com/budgetd/budgetd/api => ../api
	github.com/budgetd/budgetd/budget => ../budget
	github.com/budgetd/budgetd/client => ../client
)
