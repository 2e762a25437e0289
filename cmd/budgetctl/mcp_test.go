package main

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// agent is a session of a client of the protocol.
type agent struct {
	t       *testing.T
	session *mcp.ClientSession
}

func connected(t *testing.T, over mcp.Transport) agent {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the session ends with %v", err)
		}
	})
	return agent{t, session}
}

// overStdio runs budgetctl as a process, as docs/MCP.md configures it.
func overStdio(t *testing.T, server, token string) agent {
	t.Helper()
	page := mcpPage(t)
	_, after, _ := strings.Cut(page, "```json\n")
	text, _, _ := strings.Cut(after, "```")
	var config struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		}
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	c := config.MCPServers["budgetd"]
	for i := range c.Args {
		c.Args[i] = strings.Replace(c.Args[i], "http://127.0.0.1:8080", server, 1)
	}
	process := exec.Command(testservers.Program(t, c.Command), c.Args...)
	process.Env = []string{"XDG_CONFIG_HOME=" + t.TempDir()}
	for name, value := range c.Env {
		if value != "/etc/agent/key" || len(c.Env) != 1 {
			t.Fatalf("docs/MCP.md sets %q", c.Env)
		}
		key := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(key, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if token != "" {
			process.Env = append(process.Env, name+"="+key)
		}
	}
	return connected(t, &mcp.CommandTransport{Command: process})
}

func mcpPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/MCP.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

const httpToken = "0123456789abcdef"

var servesOn = regexp.MustCompile(`serving on (\S+)`)

// servedOverHTTP serves the tools over HTTP and returns the URL.
func servedOverHTTP(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(httpToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	log, status := new(outlet), make(chan int, 1)
	env := map[string]string{"XDG_CONFIG_HOME": t.TempDir()}
	go func() {
		status <- run(ctx, []string{"mcp", "--server", server, "--http", "127.0.0.1:0",
			"--http-token-file", file}, func(name string) string { return env[name] }, io.Discard, log)
	}()
	t.Cleanup(func() {
		cancel()
		if got := <-status; got != exitDone {
			t.Errorf("it ends with %d: %s", got, log)
		}
	})
	for range 1200 {
		if found := servesOn.FindStringSubmatch(log.String()); found != nil {
			return found[1]
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("it does not serve: %s", log)
	return ""
}

// withBearer sends a token with each request.
type withBearer string

func (token withBearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

func overHTTP(t *testing.T, server string) agent {
	t.Helper()
	return connected(t, &mcp.StreamableClientTransport{Endpoint: servedOverHTTP(t, server),
		HTTPClient: &http.Client{Transport: withBearer(httpToken)}, DisableStandaloneSSE: true})
}

// call calls a tool with the JSON of its arguments, and returns its text and its answer.
func (a agent) call(tool, args string) (text string, failed bool, answer map[string]any) {
	a.t.Helper()
	result, err := a.session.CallTool(a.t.Context(),
		&mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		a.t.Fatalf("%s %s: %v", tool, args, err)
	}
	for _, c := range result.Content {
		text += c.(*mcp.TextContent).Text
	}
	answer, _ = result.StructuredContent.(map[string]any)
	return text, result.IsError, answer
}

// does checks that a call of a tool is carried out, and what it says.
func (a agent) does(tool, args string, says ...string) map[string]any {
	a.t.Helper()
	text, failed, answer := a.call(tool, args)
	if failed || answer == nil {
		a.t.Errorf("%s %s: %s, %v", tool, args, text, answer)
	}
	checkContains(a.t, text, says...)
	return answer
}

// fails checks that a call of a tool fails, and what it says.
func (a agent) fails(tool, args string, says ...string) {
	a.t.Helper()
	text, failed, _ := a.call(tool, args)
	if !failed {
		a.t.Errorf("%s %s is carried out: %s", tool, args, text)
	}
	checkContains(a.t, text, says...)
}

// checkUnits checks what is used, held and left of a budget.
func checkUnits(t *testing.T, c *client.Client, name string, used, held, left int64) {
	t.Helper()
	b, err := c.Budget(t.Context(), name)
	if err != nil || b.Used != used || b.Held != held || *b.Remaining != left {
		t.Errorf("%s: %d used, %d held, %v left (%v), want %d, %d, %d", name, b.Used, b.Held, *b.Remaining,
			err, used, held, left)
	}
}

// TestAgent checks that an agent that uses the tools spends what they say, over stdio and HTTP, and
// that every unit is counted.
func TestAgent(t *testing.T) {
	url := serveReal(t)
	c := mustClient(t, url)
	for name, connect := range map[string]func(t *testing.T) agent{
		"stdio": func(t *testing.T) agent { return overStdio(t, url, "") },
		"http":  func(t *testing.T) agent { return overHTTP(t, url) },
	} {
		t.Run(name, func(t *testing.T) {
			must1(t, url, "create "+name+" --total 100 --type promo")
			spend(t, connect(t), name)
			checkUnits(t, c, name, 25, 0, 75)
		})
	}
}

func spend(t *testing.T, a agent, name string) {
	list, err := a.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		schema, err := json.Marshal(tool.InputSchema)
		var needs struct{ Required []string }
		if err = firstOf(err, json.Unmarshal(schema, &needs)); err != nil {
			t.Fatal(err)
		}
		once := map[string]string{"check": "budgets", "carve": "child", "close": "budget"}[tool.Name]
		if !slices.Contains(needs.Required, cmp.Or(once, "request_id")) {
			t.Errorf("%s needs %q", tool.Name, needs.Required)
		}
	}
	if want := []string{"carve", "check", "close", "confirm", "explain", "hold",
		"release"}; !slices.Equal(names, want) {
		t.Errorf("there are %q, want %q", names, want)
	}
	of := func(id string, more ...string) string {
		return `{"budget":"` + name + `","request_id":"` + id + `"` + strings.Join(more, "") + `}`
	}
	const ttl = `,"hold_ttl":"15m","amount":`
	a.does("check", `{"budgets":["`+name+`","nowhere"],"amount":100}`, name+": would be accepted",
		"nowhere: Wrong request", "budget_not_found")
	answer := a.does("hold", of("r1", ttl, "30"), "30 units", "held", "confirm or release it before", "70 left")
	if answer["amount"] != 30.0 || answer["state"] != "held" {
		t.Errorf("%v", answer)
	}
	a.does("hold", of("r1", ttl, "30"), "nothing more was taken")
	a.fails("hold", of("r1", ttl, "31"), "Conflict. Nothing was changed.", "request_conflict", "another request_id")
	a.does("confirm", of("r1", `,"amount":20`), "20 units are used, 10 went back")
	a.does("confirm", of("r1", `,"amount":20`), "20 units are used")
	a.fails("release", of("r1"), "Refused. Nothing was changed.", "is used, and release gives back holds only")
	a.does("hold", of("r2", ttl, "50"))
	a.does("release", of("r2"), "rolled_back", "50 units went back")
	a.does("release", of("r2"), "50 units went back")
	a.fails("confirm", of("r2"), "Conflict. Nothing was changed.", "begin again with another request_id")
	a.does("release", of("r3"), "void", "never will be")
	a.fails("hold", of("r3", ttl, "1"), "Conflict. Nothing was changed.", "released for good")
	a.fails("hold", of("r4", ttl, "81"), "Refused. Nothing was changed.", "budget_exhausted", "available: 80",
		"ask for at most what is available")
	a.does("explain", of("r4"), "budget_exhausted", "the budget had", "80")
	a.fails("explain", of("r5"), "nothing is known of r5", "check the request_id")
	a.does("hold", of("r6", ttl, `5,"above":"available"`))
	a.does("confirm", of("r6"), "5 units are used, 0 went back")
}

// TestAgentHostile checks that arguments that are not exactly right are refused in a text that the
// agent sees, and change nothing.
func TestAgentHostile(t *testing.T) {
	url := serveReal(t)
	must1(t, url, "create sale --total 100 --type promo")
	must1(t, url, "deduct sale 10 --request-id r1 --hold 15m")
	a := overHTTP(t, url)
	hold := func(more string) string { return `{"budget":"sale","hold_ttl":"15m"` + more + `}` }
	for _, c := range []struct{ tool, args, says string }{
		{"hold", hold(`,"amount":1`), "request_id"},
		{"hold", hold(`,"amount":1,"request_id":""`), "request_id"},
		{"hold", hold(`,"amount":1,"request_id":null`), "request_id"},
		{"hold", hold(`,"amount":1,"Request_ID":"a"`), "Request_ID"},
		{"hold", hold(`,"amount":1,"request_id":"` + strings.Repeat("a", 129) + `"`), "request_id"},
		{"hold", hold(`,"amount":1,"request_id":"a\u0000b"`), "request_id"},
		{"hold", hold(`,"request_id":"a"`), "amount"},
		{"hold", hold(`,"amount":0,"request_id":"a"`), "amount"},
		{"hold", hold(`,"amount":-5,"request_id":"a"`), "amount"},
		{"hold", hold(`,"amount":1.5,"request_id":"a"`), "amount"},
		{"hold", hold(`,"amount":"5","request_id":"a"`), "amount"},
		{"hold", hold(`,"amount":9007199254740992,"request_id":"a"`), "amount"},
		{"hold", hold(`,"amount":1e300,"request_id":"a"`), "amount"},
		{"hold", hold(`,"amount":1,"request_id":"a","total":5`), "total"},
		{"hold", hold(`,"amount":1,"request_id":"a","dimensions":{"user":""}`), "dimensions"},
		{"hold", `{"budget":"sale","amount":1,"request_id":"a"}`, "hold_ttl"},
		{"hold", `{"budget":"sale","amount":1,"request_id":"a","hold_ttl":""}`, "hold_ttl"},
		{"hold", `{"budget":"sale","amount":1,"request_id":"a","hold_ttl":"400d"}`, "hold_ttl"},
		{"hold", `{"budget":"../keys","amount":1,"request_id":"a","hold_ttl":"1m"}`, "budget"},
		{"hold", `[]`, "arguments"},
		{"confirm", `{"budget":"sale","request_id":"r1","amount":0}`, "amount"},
		{"confirm", `{"budget":"sale","amount":1}`, "request_id"},
		{"confirm", `{"budget":"sale","request_id":"r1","amount":11}`, "at most what is held"},
		{"release", `{"budget":"sale"}`, "request_id"},
		{"release", `{"budget":"","request_id":"r1"}`, "budget"},
		{"check", `{"budgets":[],"amount":1}`, "budgets"},
		{"check", `{"budgets":["sale"` + strings.Repeat(`,"sale"`, 100) + `],"amount":1}`, "budgets"},
	} {
		t.Run(c.tool+" "+c.args[:min(60, len(c.args))], func(t *testing.T) {
			agent{t, a.session}.fails(c.tool, c.args, c.says)
		})
	}
	if _, err := a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "append"}); err == nil {
		t.Error("there is a tool append")
	}
	checkUnits(t, mustClient(t, url), "sale", 0, 10, 90)
}

// TestAgentsKey checks that the tools do what the key may do, and nothing else.
func TestAgentsKey(t *testing.T) {
	url, c := secured(t)
	for _, name := range []string{"agent-7", "other"} {
		made(t, c, name, "", 100)
	}
	key := func(role string) agent {
		return withKey(t, url, c, client.KeyRequest{Principal: role, Role: role, Tenant: "default",
			Budgets: []string{"agent-7"}})
	}
	of := func(name string) string {
		return `{"budget":"` + name + `","request_id":"r1","amount":5,"hold_ttl":"15m"}`
	}
	read, deduct := key("read"), key("deduct")
	overStdio(t, url, "").fails("hold", of("agent-7"), "Wrong request. Nothing was changed.", "unauthenticated",
		"tell a person")
	read.fails("hold", of("agent-7"), "forbidden", "the key of this server may not do that")
	deduct.fails("hold", of("other"), "budget_not_found")
	deduct.fails("carve", `{"parent":"agent-7","child":"agent-8","units":1}`, "forbidden")
	deduct.does("hold", of("agent-7"), "5 units")
	read.fails("release", `{"budget":"agent-7","request_id":"r1"}`, "forbidden")
	checkUnits(t, c, "agent-7", 0, 5, 95)
	deduct.does("confirm", `{"budget":"agent-7","request_id":"r1"}`)
	text, _, _ := deduct.call("hold", `{"budget":"agent-7","request_id":"r2","amount":96,"hold_ttl":"15m"}`)
	shown := regexp.MustCompile(`(?m)^ +correlation id: .*\n`).ReplaceAllString(text, "")
	if shown = "    " + strings.ReplaceAll(shown, "\n", "\n    ") + "\n"; !strings.Contains(mcpPage(t), shown) {
		t.Errorf("docs/MCP.md does not show\n%s", shown)
	}
	checkUnits(t, c, "other", 0, 0, 100)
}
