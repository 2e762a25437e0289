// The bodies of the API are a module of their own, because the server, the client and budgetctl
// share them and the client is one.
module github.com/budgetd/budgetd/api

go 1.24

require (
	github.com/budgetd/budgetd/budget v0.0.0
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2
)

replace github.com/budgetd/budgetd/budget => ../budget
