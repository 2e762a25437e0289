// Package console serves the operator's page at / of the administrative listener. The page fetches
// all its data with API calls, using the key or session of its user. The page itself holds no data,
// so it is open to all callers.
//
// Dashboard keeps in memory what the page and `budgetctl explain` show of this node: its last
// refusals (recent.go), and the state of all budgets, from which it ranks them (ranks.go).
//
// Its sources (TypeScript, Preact, uPlot) are in web. Vite builds them into dist, which is
// committed so that go build does not need Node; scripts/console.sh runs the build.
package console
