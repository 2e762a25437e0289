// The words of budgetd are a module of their own, because the client's is one: it imports this
// package and nothing else of the repository.
module github.com/budgetd/budgetd/budget

go 1.24

require pgregory.net/rapid v1.3.0
