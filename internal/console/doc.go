// Package console is the operator's page: one page with views, served at / of the administrative
// listener. Everything that it shows comes from the calls of the API, with the key or the session
// of who looks at it; the page itself holds no data and is open to everybody.
//
// web has its sources (TypeScript, Preact, uPlot), which Vite builds into dist. dist is committed,
// so that go build needs no Node; scripts/console.sh builds it.
package console
