package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tools are what an agent can call. They are safe for concurrent use.
type tools struct {
	app    *app
	client *client.Client
}

func newTools(a *app, c *client.Client) *tools { return &tools{a, c} }

// What the tools take. argumentsOf describes it. The server checks every member too.
type (
	checkArgs struct {
		Budgets    []string          `json:"budgets"`
		Amount     int64             `json:"amount"`
		Dimensions map[string]string `json:"dimensions,omitempty"`
	}
	holdArgs struct {
		RequestID  string            `json:"request_id"`
		Budget     string            `json:"budget"`
		Amount     int64             `json:"amount"`
		HoldTTL    string            `json:"hold_ttl"`
		Dimensions map[string]string `json:"dimensions,omitempty"`
		Reference  string            `json:"reference,omitempty"`
		Above      string            `json:"above,omitempty"`
	}
	confirmArgs struct {
		RequestID string `json:"request_id"`
		Budget    string `json:"budget"`
		Amount    int64  `json:"amount,omitempty"`
	}
	releaseArgs struct {
		RequestID string `json:"request_id"`
		Budget    string `json:"budget"`
	}
	explainArgs struct {
		RequestID string `json:"request_id"`
		Budget    string `json:"budget,omitempty"`
	}
	carveArgs struct {
		Parent string `json:"parent"`
		Child  string `json:"child"`
		Units  int64  `json:"units"`
		TTL    string `json:"ttl,omitempty"`
	}
	closeArgs struct {
		Budget string `json:"budget"`
	}
)

// argumentsOf is what the schemas say of each argument.
var argumentsOf = map[string]jsonschema.Schema{
	"budgets": {Type: "array", Items: &jsonschema.Schema{Type: "string"}, MinItems: new(1),
		MaxItems: new(100), Description: "names of the budgets"},
	"budget": {Type: "string", MinLength: new(1), Description: "name of the budget"},
	"request_id": {Type: "string", MinLength: new(1), MaxLength: new(128), Description: "id of the " +
		"hold, chosen and noted before the first call: the same id takes effect once"},
	"amount": {Type: "integer", Minimum: new(1.0), Maximum: new(float64(budget.MaxAmount)),
		Description: "whole units. hold: the most that the work may cost. confirm: what was used, " +
			"and the rest goes back; left out, it is all that is held"},
	// An empty time would use the units at once.
	"hold_ttl": {Type: "string", MinLength: new(1), Description: "time such as 15m, after which " +
		"the hold ends by itself and its units go back"},
	"dimensions": {Type: "object", AdditionalProperties: &jsonschema.Schema{Type: "string"},
		Description: `whom it is for, such as {"user": "u1"}; limits count by it`},
	"reference": {Type: "string", Description: "note that is recorded"},
	"above": {Type: "string", Enum: []any{"refuse", "available"}, Description: "available: a " +
		"confirm of more than is held takes the rest from the budget; refuse (default): it does not"},
	"parent": {Type: "string", MinLength: new(1), Description: "name of the budget that gives units"},
	"child": {Type: "string", MinLength: new(1), Description: "name of the new budget, chosen and " +
		"noted before the first call: the same carve takes effect once"},
	"units": {Type: "integer", Minimum: new(1.0), Maximum: new(float64(budget.MaxAmount)),
		Description: "whole units that the child gets and the parent no longer has"},
	"ttl": {Type: "string", MinLength: new(1), Description: "time such as 15m, after which it " +
		"ends by itself and gives back what it has; left out, the child ends with the parent"},
}

const mcpInstructions = `Budgets of units, such as money or tokens. Before the work, hold the most
that it may cost, and begin only if the hold is accepted. Then confirm what was used, or release the
hold if nothing was. If the outcome of a call is unknown, repeat it with the same request_id: it
takes effect once. For another agent, carve a part of a budget, and close it when that agent ends.
A refusal says what is there, when to repeat, and what to do.`

// server returns a server with all tools.
func (t *tools) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "budgetd", Title: "budgetd", Version: version()},
		&mcp.ServerOptions{Instructions: mcpInstructions, Capabilities: &mcp.ServerCapabilities{}})
	addTool(s, "check", "Tells which budgets would accept a deduction now. It changes nothing and "+
		"promises nothing.", true, t.check)
	addTool(s, "hold", "Holds units of a budget until they are confirmed or released, or until "+
		"hold_ttl is over. Call it before the work, and do the work only if it is accepted.", false,
		t.hold)
	addTool(s, "confirm", "Uses units of a hold, after the work, and gives the rest back.", false,
		t.confirm)
	addTool(s, "release", "Gives back all units of a hold. If the hold has not arrived yet, it "+
		"never will. It does not give back what was confirmed.", false, t.release)
	addTool(s, "explain", "Says why a call was refused: limits, what the budget had, what to do.",
		true, t.explain)
	addTool(s, "carve", "Makes a budget with units of another one, its parent, for example for "+
		"another agent. It raises no total.", false, t.carve)
	addTool(s, "close", "Ends a budget that was carved out of another, and its children. What they "+
		"neither use nor hold goes back to the parent at once, holds when they end.", false, t.close)
	return s
}

// addTool adds a tool. All repeat safely. What close ends does not begin again.
func addTool[In any](s *mcp.Server, name, what string, reads bool,
	call func(context.Context, In) (string, any, error)) {
	schema, err := jsonschema.For[In](nil)
	must(err)
	for name := range schema.Properties {
		member, described := argumentsOf[name]
		if !described {
			panic("budgetctl's own tools: nothing describes " + name)
		}
		schema.Properties[name] = &member
	}
	tool := &mcp.Tool{Name: name, Description: what, InputSchema: schema,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads, IdempotentHint: true,
			DestructiveHint: new(name == "close"), OpenWorldHint: new(false)}}
	mcp.AddTool(s, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (
		*mcp.CallToolResult, any, error) {
		text, answer, err := call(ctx, in)
		if err != nil {
			return nil, nil, errors.New(failureText(name, err))
		}
		out, err := json.Marshal(answer)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}},
			StructuredContent: rawJSON(out)}, nil, nil
	})
}

// rawJSON is JSON that is written as it is.
type rawJSON []byte

// MarshalJSON returns the text.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// bounded is a context with the time of one call.
func (t *tools) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.app.timeout)
}

func (t *tools) check(ctx context.Context, in checkArgs) (string, any, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	items := make([]client.CheckItem, len(in.Budgets))
	for i, name := range in.Budgets {
		items[i] = client.CheckItem{Budget: name, Amount: in.Amount, Dimensions: in.Dimensions}
	}
	results, err := t.client.Check(ctx, items)
	if err != nil {
		return "", nil, err
	}
	var lines []string
	for i, r := range results {
		line := in.Budgets[i] + ": would be accepted."
		if r.Err != nil {
			line = in.Budgets[i] + ": " + failureText("check", r.Err)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), checkListOf(in.Budgets, results), nil
}

func (t *tools) hold(ctx context.Context, in holdArgs) (string, any, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	answer, err := t.client.Deduct(ctx, in.Budget, client.DeductRequest{RequestID: in.RequestID,
		Amount: in.Amount, HoldTTL: in.HoldTTL, Dimensions: in.Dimensions, Reference: in.Reference,
		Above: in.Above})
	if err != nil {
		return "", nil, err
	}
	text := fmt.Sprintf("Accepted: %d units of %s are %s by request_id %s.", answer.Amount, in.Budget,
		answer.State, in.RequestID)
	if answer.State == "held" {
		text += fmt.Sprintf(" The hold ends at %s: confirm or release it before.",
			answer.HoldUntil.Format(time.RFC3339))
	}
	if answer.Replayed {
		text += " It is the answer to an earlier call: nothing more was taken."
	}
	if answer.BudgetRemaining != nil {
		text += fmt.Sprintf(" The budget has %d left.", *answer.BudgetRemaining)
	}
	return text, answer, nil
}

func (t *tools) confirm(ctx context.Context, in confirmArgs) (string, any, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	answer, err := t.client.Confirm(ctx, in.Budget,
		client.ConfirmRequest{RequestID: in.RequestID, Amount: in.Amount})
	if err != nil {
		return "", nil, err
	}
	return settledText(answer), answer, nil
}

// release rolls a hold back, or excludes it. It looks first, because a rollback would also give
// back what was confirmed.
func (t *tools) release(ctx context.Context, in releaseArgs) (string, any, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	found, err := t.client.Deduction(ctx, in.Budget, in.RequestID)
	switch {
	case client.CodeOf(err) == budget.DeductionNotFound: // a hold may be on its way
	case err != nil:
		return "", nil, err
	case found.State == "used":
		return "", nil, notAHold{in.RequestID}
	}
	answer, err := t.client.Cancel(ctx, in.Budget, client.CancelRequest{RequestID: in.RequestID})
	if err != nil {
		return "", nil, err
	}
	return settledText(answer), answer, nil
}

// notAHold means that what should be released is used.
type notAHold struct{ requestID string }

func (e notAHold) Error() string {
	return fmt.Sprintf("what request_id %s took is used, and release gives back holds only",
		e.requestID)
}

// settledText says how a hold stands.
func settledText(d *client.Deduction) string {
	text := fmt.Sprintf("Done: request_id %s is %s.", d.RequestID, d.State)
	switch d.State {
	case "void":
		text += " It was never held, and never will be."
	case "used":
		text += fmt.Sprintf(" %d units are used, %d went back.", d.Confirmed,
			d.Amount+d.Extra-d.Confirmed)
		if d.Uncollected > 0 {
			text += fmt.Sprintf(" The budget did not have %d more.", d.Uncollected)
		}
	default:
		text += fmt.Sprintf(" %d units went back.", d.RolledBack)
	}
	return text
}

func (t *tools) explain(ctx context.Context, in explainArgs) (string, any, error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	why, err := t.app.whyRefused(ctx, t.client, in.RequestID, in.Budget, "")
	if err != nil {
		return "", nil, err
	}
	return why.text(), why, nil
}
