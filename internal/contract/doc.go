// Package contract renders openapi.yaml as JSON for programs and as pages for people. Package
// httpapi serves them. docs/API.md and docs/errors come from the same templates, by go generate.
//
//	openapi.yaml ── document.go ──┬── JSON ─────────────────────────── /openapi.json
//	                              └── api.md.tmpl, error.md.tmpl ──┬── docs/API.md, docs/errors/*.md
//	                                                               └── HTML: /docs, /docs/errors/CODE
package contract

//go:generate go test . -run TestPagesInDocs -update
