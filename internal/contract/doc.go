// Package contract shows openapi.yaml: as JSON for programs, as pages for people. It serves nothing
// itself; package httpapi asks it for what a path shows. docs/API.md and docs/errors come from the
// same templates, by go generate.
//
//	openapi.yaml ── document.go ──┬── JSON ─────────────────────────── /openapi.json
//	                              └── api.md.tmpl, error.md.tmpl ──┬── docs/API.md, docs/errors/*.md
//	                                                               └── HTML: /docs, /docs/errors/CODE
package contract

//go:generate go test . -run TestPagesInDocs -update
