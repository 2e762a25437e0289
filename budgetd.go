// Package budgetd hands out budgets, stock and quotas at very high rates: never one unit too many,
// never one lost, and never "sold out" while something is left. docs/ARCHITECTURE.md is the map.
//
// This package only embeds the files that an operator or a caller reads first.
package budgetd

import _ "embed"

// Schema is schema.sql: every table of the database.
//
//go:embed schema.sql
var Schema string

// Config is config.yaml: every setting with its default.
//
//go:embed config.yaml
var Config []byte

// OpenAPI is openapi.yaml: every call with its body, answers and errors.
//
//go:embed openapi.yaml
var OpenAPI []byte
