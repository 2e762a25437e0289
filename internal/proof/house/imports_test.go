package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/budgetd/budgetd"

// room is where a package stands in the house: which packages of this module it may import. A
// package below a placed one (internal/redisstore/lua) stands where that stands.
type room struct {
	may      []string // packages of this module; "bucket/*" is every package directly below bucket
	stdOnly  bool     // otherwise the standard library only
	test     bool     // exists for tests: imported by tests, commands and other such packages only
	store    string   // the store it is part of: imported by that, internal/daemon, tests and who may
	anything bool     // may import every package but cmd
}

var (
	words = []string{"budget", "ring", "iana"}
	rules = slices.Concat(words, []string{"allocation", "limit", "ledger", "fragment", "series",
		"access", "alert"})
	actor = slices.Concat(rules, []string{"auditlog", "bucket"})
	// shared is what the verbs share: the queue that makes batches, where buckets are put, the path of
	// deductions, and the spans of calls.
	shared = []string{"bucket/batch", "bucket/placement", "bucket/deduct", "bucket/span"}
	root   = []string{"."} // schema.sql and config.yaml
	edge   = []string{"internal/ratelimit", "internal/auth", "internal/contract"}
	// ground is what everything that has statements stands on.
	ground = []string{"internal/sql/engine", "internal/sql/rows",
		"internal/sql/counters", "internal/sql/bookkeeper", "ledger/books"}
)

// house is the direction of imports: words <- rules <- bucket <- the engine of SQL <- bucket/* <-
// {daemon, httpapi, console} <- cmd. A line of "name/*" is for every package directly below name, each on its own. A
// new package gets its line here.
var house = map[string]room{
	".": {stdOnly: true},
	// words
	"budget": {stdOnly: true},
	"ring":   {stdOnly: true},
	"iana":   {stdOnly: true},
	// rules
	"allocation": {may: words, stdOnly: true},
	"limit":      {may: words, stdOnly: true},
	"ledger":     {may: words, stdOnly: true},
	// the rows of the accounting, and the movements between them
	"ledger/books": {may: slices.Concat(words, []string{"allocation", "fragment", "limit", "ledger"}),
		stdOnly: true},
	"fragment": {may: words, stdOnly: true},
	"series":   {may: words, stdOnly: true},
	"access":   {may: words, stdOnly: true},
	"alert":    {may: words, stdOnly: true},
	// rows, their chain, and the statements that append and read them, on database/sql
	"auditlog": {may: words, stdOnly: true},
	"api":      {may: words},
	// the contract, and the verbs, which know each other through interfaces in bucket
	"bucket":           {may: slices.Concat(rules, []string{"bucket/batch", "bucket/placement"})},
	"bucket/batch":     {stdOnly: true},
	"bucket/placement": {may: actor},
	"bucket/span":      {},
	"bucket/deduct":    {may: slices.Concat(actor, []string{"bucket/batch", "bucket/span"})},
	"bucket/store":     {may: slices.Concat(actor, ground)},
	"bucket/counter":   {may: slices.Concat(actor, shared, ground, []string{"bucket/store"})},
	// a service holds its statements
	"bucket/*": {may: slices.Concat(actor, shared, ground)},
	// technologies
	"internal/redisstore": {may: slices.Concat(actor, []string{"bucket/span"}),
		store: "internal/redisstore"},
	"internal/redisstore/faultstore": {may: slices.Concat(actor, []string{"internal/redisstore"}),
		test: true},
	"internal/sql/*": {may: slices.Concat(actor, ground, []string{"bucket/*"}),
		store: "internal/sql"},
	"internal/sql/engine": {may: slices.Concat(actor, root, []string{"bucket/span"}), store: "internal/sql"},
	"internal/proof/fixture": {may: slices.Concat(actor, ground,
		[]string{"internal/proof/testservers"}), store: "internal/sql", test: true},
	"internal/contract": {may: root}, // openapi.yaml as pages
	"internal/httpapi":  {may: slices.Concat(actor, edge, []string{"api"})},
	"internal/metrics":  {may: actor},
	"internal/console":  {may: slices.Concat(actor, edge)},
	"internal/webhook":  {may: []string{"alert", "internal/secret"}},
	"internal/secret":   {stdOnly: true},
	// files as strict as the API
	"internal/strictyaml": {},
	"client/tlsfiles":     {stdOnly: true},
	"internal/ratelimit":  {may: words},
	"internal/auth": {may: slices.Concat(words, []string{"access", "auditlog", "internal/ratelimit",
		"client/tlsfiles"})},
	"internal/oidc": {may: slices.Concat(words, []string{"access", "internal/secret"})},
	"internal/config": {may: slices.Concat(words, root, []string{"access", "internal/secret",
		"client/tlsfiles", "internal/strictyaml"})},
	"internal/daemon": {anything: true},
	// what is wired, and what speaks to it
	"cmd/budgetd": {may: slices.Concat(words, root, []string{"internal/config", "internal/daemon"})},
	"cmd/budgetctl": {may: slices.Concat(words, []string{"client", "access", "auditlog",
		"client/tlsfiles", "internal/strictyaml", "internal/secret"})},
	"client": {may: []string{"api", "budget", "client/tlsfiles"}},
	// what exists for tests
	"deploy":                     {stdOnly: true, test: true}, // the dashboard, made once and committed
	"internal/proof/testservers": {test: true},
	"internal/proof/adversarial": {may: words, test: true},
	"internal/proof/e2e":         {anything: true, test: true},
	"internal/proof/crashpoints": {anything: true, test: true},
	"internal/proof/chaos":       {anything: true, test: true},
	"internal/proof/mutants":     {stdOnly: true, test: true},
	"internal/proof/auditor":     {stdOnly: true, test: true}, // shares no code with the system
	"internal/proof/sdk":         {may: []string{"internal/proof/testservers"}, test: true},
	"internal/sdktypes":          {may: root, test: true}, // writes the types of sdk
	// bench and tools are not looked at.
	"internal/proof/model":   {stdOnly: true},
	"internal/proof/model/*": {may: []string{"internal/proof/model/*"}, stdOnly: true},
	"internal/proof/house":   {stdOnly: true, test: true},
}

// technologies are modules that one part of the house sees, tests included.
var technologies = map[string][]string{
	"github.com/jmoiron/sqlx":         {"internal/sql"},
	"github.com/go-sql-driver/mysql":  {"internal/sql", "internal/proof/testservers", "auditlog"},
	"modernc.org/sqlite":              {"internal/sql", "auditlog"}, // its tests
	"github.com/pressly/goose":        {"internal/sql"},
	"github.com/redis/go-redis":       {"internal/redisstore"},
	"github.com/spf13/viper":          {"internal/config"},
	"github.com/adhocore/gronx":       {"internal/config"},
	"github.com/spf13/cobra":          {"cmd/budgetctl"},
	"github.com/coreos/go-oidc":       {"internal/oidc"},
	"golang.org/x/oauth2":             {"internal/oidc"},
	"golang.org/x/time":               {"internal/ratelimit"},
	"charm.land":                      {"cmd/budgetctl"},
	"github.com/modelcontextprotocol": {"cmd/budgetctl"},
	"github.com/google/jsonschema-go": {"cmd/budgetctl"},
	"go.opentelemetry.io/otel/sdk":    {"internal/daemon", "bucket/span"},
	"github.com/chromedp":             {"internal/console"},
	"github.com/yuin/goldmark":        {"internal/contract"},
	"github.com/pb33f":                {"internal/contract"},
}

// never are packages that must not be linked into a command, however indirectly.
var never = map[string][]string{
	"cmd/budgetctl": {"github.com/spf13/viper", "github.com/redis/go-redis", "modernc.org/sqlite", "time/tzdata"},
}

// always are packages that must be linked into a command: without iana a zone would be what the machine has.
var always = map[string][]string{"cmd/budgetd": {"github.com/budgetd/budgetd/iana"}}

// emptyNames say nothing about what is inside.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "type", "types",
	"models"}

// goPackage is what go list says about one package.
type goPackage struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// folder returns the package's folder in the repository, "." for the root.
func (p goPackage) folder() string { return folderOf(p.ImportPath) }

// folderOf returns the folder of an import path of this module, or "" if it is somebody else's.
func folderOf(importPath string) string {
	if importPath == module {
		return "."
	}
	folder, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return ""
	}
	return folder
}

// within says whether a path is another one or below it.
func within(path, top string) bool {
	return path == top || strings.HasPrefix(path, top+"/")
}

func withinAny(path string, tops []string) bool {
	return slices.ContainsFunc(tops, func(top string) bool { return within(path, top) })
}

// roomOf returns where a folder stands: the longest line of the house that it is within. The top is
// the line's folder, for "bucket/*" that of the package directly below bucket.
func roomOf(folder string) (top string, where room, found bool) {
	longest := 0
	for name, candidate := range house {
		above, each := strings.CutSuffix(name, "/*")
		below, inside := strings.CutPrefix(folder, above+"/")
		switch {
		case len(name) <= longest:
		case each && inside:
			first, _, _ := strings.Cut(below, "/")
			longest, top, where, found = len(name), above+"/"+first, candidate, true
		case !each && within(folder, name):
			longest, top, where, found = len(name), name, candidate, true
		}
	}
	return top, where, found
}

// allows reports whether a room may import what stands at a top.
func (p room) allows(top string) bool {
	return p.anything || slices.Contains(p.may, top) || slices.Contains(p.may, path.Dir(top)+"/*")
}

// violations returns everything that is wrong with where a package stands and what it imports.
func violations(p goPackage) []string {
	var wrong []string
	folder := p.folder()
	if base := path.Base(folder); slices.Contains(emptyNames, p.Name) ||
		slices.Contains(emptyNames, base) {
		wrong = append(wrong, fmt.Sprintf("%s: the name says nothing about what is inside", folder))
	}
	top, where, found := roomOf(folder)
	if !found {
		return append(wrong, fmt.Sprintf(
			"%s has no room: give it a line in the house of imports_test.go", folder))
	}
	for _, imported := range p.Imports {
		if reason := refused(top, where, imported); reason != "" {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", folder, imported, reason))
		}
	}
	for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
		if reason := refusedInTests(top, where, imported); reason != "" {
			wrong = append(wrong, fmt.Sprintf("%s's tests import %s: %s", folder, imported, reason))
		}
	}
	for _, dependency := range p.Deps {
		if withinAny(dependency, never[top]) {
			wrong = append(wrong, fmt.Sprintf("%s depends on %s: it must not", folder, dependency))
		}
	}
	return wrong
}

// refused says why a package must not import another, or "".
func refused(top string, where room, imported string) string {
	folder := folderOf(imported)
	if folder == "" {
		if where.stdOnly && !isStandard(imported) {
			return "standard library only"
		}
		return technologyRefused(top, imported)
	}
	importedTop, importedPlace, _ := roomOf(folder)
	switch {
	case importedTop == top:
		return ""
	case within(folder, "cmd"):
		return "nobody imports a command"
	case importedPlace.store != "" && importedPlace.store != where.store &&
		top != "internal/daemon" && !where.test && !where.allows(importedTop):
		return "stores are imported by internal/daemon and tests only"
	case importedPlace.test && !where.test && !within(top, "cmd"):
		return "it exists for tests"
	case !where.allows(importedTop):
		return "against the direction of imports"
	}
	return ""
}

// refusedInTests says why a package's tests must not import another, or "". Tests may reach up
// and take any store, but words and rules are tested with nothing above them.
func refusedInTests(top string, where room, imported string) string {
	folder := folderOf(imported)
	if folder == "" {
		return technologyRefused(top, imported)
	}
	importedTop, _, _ := roomOf(folder)
	switch {
	case importedTop == top:
		return ""
	case within(folder, "cmd"):
		return "nobody imports a command"
	case slices.Contains(rules, top) && !where.allows(importedTop):
		return "words and rules are tested on their own"
	}
	return ""
}

// technologyRefused says who alone may import a third-party package, or "" if top may.
func technologyRefused(top, imported string) string {
	for technology, seers := range technologies {
		if within(imported, technology) && !withinAny(top, seers) {
			return "only " + strings.Join(seers, " and ") + " may"
		}
	}
	return ""
}

// isStandard says whether an import path is the standard library's: its first element has no dot.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func TestImportsPointOneWay(t *testing.T) {
	packages := listPackages(t)
	if len(packages) == 0 {
		t.Fatal("go list found no package")
	}
	for _, p := range packages {
		for _, wrong := range violations(p) {
			t.Error(wrong)
		}
		for _, dependency := range always[p.folder()] {
			if !slices.Contains(p.Deps, dependency) {
				t.Errorf("%s does not depend on %s: it must", p.folder(), dependency)
			}
		}
	}
}

func listPackages(t *testing.T) (all []goPackage) {
	t.Helper()
	for _, module := range []string{".", "api", "budget", "client"} {
		all = append(all, packagesOf(t, module)...)
	}
	return all
}

func packagesOf(t *testing.T, module string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "-C", module, "list", "-e", "-json", "./...")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaints.String())
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
