package client

import (
	"context"
	"net/http"

	"github.com/budgetd/budgetd/api"
)

// Instances returns the stores and their partitions.
func (c *Client) Instances(ctx context.Context) (*InstanceList, error) {
	var answer InstanceList
	_, err := c.do(ctx, call{
		op: "instances", method: http.MethodGet, path: []string{"v1", "instances"}, repeatable: true,
	}, &answer)
	return result(&answer, err)
}

// DrainInstance moves every bucket of an instance elsewhere. It returns the progress at once;
// repeat it to see more. Errors: instance_not_found, last_instance.
func (c *Client) DrainInstance(ctx context.Context, name string) (*Drain, error) {
	return c.drain(ctx, name, "drain")
}

// UndrainInstance lets buckets be placed on an instance again. Errors: instance_not_found.
func (c *Client) UndrainInstance(ctx context.Context, name string) (*Drain, error) {
	return c.drain(ctx, name, "undrain")
}

// GiveUpInstance gives up an instance of store mode that will not come back, and drains it. What
// its buckets held goes to quarantine, or back to the total if the budget says so. Errors:
// instance_not_found, instance_answers.
func (c *Client) GiveUpInstance(ctx context.Context, name string) (*Drain, error) {
	return c.drain(ctx, name, "give-up")
}

func (c *Client) drain(ctx context.Context, name, verb string) (*Drain, error) {
	var answer Drain
	_, err := c.do(ctx, onInstance(name, verb, true), &answer)
	return result(&answer, err)
}

// RecoverInstance takes an instance that lost its memory back into service. Errors:
// instance_not_found; outcome_unknown if a partition cannot be reached: the service continues to
// recover that partition, and has not begun the following ones. The client does not retry it,
// because each call restarts the buckets.
func (c *Client) RecoverInstance(ctx context.Context, name string) (*Instance, error) {
	var answer Instance
	_, err := c.do(ctx, onInstance(name, "recover", false), &answer)
	return result(&answer, err)
}

// Rebalance gives new and returned instances their share of the existing buckets. With dryRun it
// moves nothing. A repeated call moves what is left.
func (c *Client) Rebalance(ctx context.Context, dryRun bool) (*Rebalance, error) {
	var answer Rebalance
	_, err := c.do(ctx, call{op: "rebalance", method: http.MethodPost,
		path: []string{"v1", "instances:rebalance"}, body: api.RebalanceRequest{DryRun: dryRun},
		repeatable: true}, &answer)
	return result(&answer, err)
}

func onInstance(name, verb string, repeatable bool) call {
	return call{op: verb, method: http.MethodPost, path: []string{"v1", "instances", name, verb},
		repeatable: repeatable}
}

// Healthz returns nil if the process answers. It makes one attempt.
func (c *Client) Healthz(ctx context.Context) error { return c.probe(ctx, "healthz") }

// Readyz returns nil if the service can serve, and a *Problem with Reasons if it cannot. It makes
// one attempt.
func (c *Client) Readyz(ctx context.Context) error { return c.probe(ctx, "readyz") }

func (c *Client) probe(ctx context.Context, name string) error {
	return c.send(ctx, call{op: name, method: http.MethodGet, path: []string{name}}, nil)
}

// Nodes returns the nodes that use the service's database, sorted by name.
func (c *Client) Nodes(ctx context.Context) (*NodeList, error) {
	var answer NodeList
	_, err := c.do(ctx, call{
		op: "nodes", method: http.MethodGet, path: []string{"v1", "nodes"}, repeatable: true,
	}, &answer)
	return result(&answer, err)
}
