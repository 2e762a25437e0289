package client

import (
	"context"
	"net/http"
	"time"
)

// Instance is a store that buckets live in.
type Instance struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitzero"`
	// Health is "up", or "down" when a lane could not be reached at the last attempt.
	Health string `json:"health"`
	// Draining says that its buckets move to other instances.
	Draining bool   `json:"draining"`
	Lanes    []Lane `json:"lanes"`
}

// Lane is the part of an instance in which one script can touch every key.
type Lane struct {
	// Lane is the number of the lane within the instance, from 0.
	Lane int `json:"lane"`
	// Activation is the number of the lane's incarnation that the database has verified.
	Activation int64 `json:"activation"`
	// Reachable says whether the last attempt reached it, Problem why not.
	Reachable bool `json:"reachable"`
	// Buckets is how many it has; nil: the database could not be asked.
	Buckets *int   `json:"buckets,omitzero"`
	Problem string `json:"problem,omitzero"`
}

// Drain is how far the draining of an instance is.
type Drain struct {
	Instance string `json:"instance"`
	Draining bool   `json:"draining"`
	// BucketsLeft are on it still, Moved ones have left it, and its store keeps something of KeysLeft
	// ones.
	BucketsLeft int `json:"buckets_left"`
	Moved       int `json:"moved"`
	KeysLeft    int `json:"keys_left"`
	// Done says that no bucket is left, nor any key of them that could be removed.
	Done bool `json:"done"`
	// Problem says what keeps it from going on.
	Problem string `json:"problem,omitzero"`
	// Quarantined and Returned are minor units that its buckets held when it was given up.
	Quarantined int64 `json:"quarantined,omitzero"`
	Returned    int64 `json:"returned,omitzero"`
}

// InstanceList is every configured instance.
type InstanceList struct {
	Instances []Instance `json:"instances"`
}

// Instances returns the stores and their lanes.
func (c *Client) Instances(ctx context.Context) (*InstanceList, error) {
	var answer InstanceList
	_, err := c.do(ctx, call{
		op: "instances", method: http.MethodGet, path: []string{"v1", "instances"}, repeatable: true,
	}, &answer)
	return result(&answer, err)
}

// DrainInstance moves every bucket of an instance elsewhere. It answers at once with how far that
// is; repeat it to hear more. Errors: instance_not_found, last_instance.
func (c *Client) DrainInstance(ctx context.Context, name string) (*Drain, error) {
	return c.drain(ctx, name, "drain")
}

// UndrainInstance lets buckets land on an instance again. Errors: instance_not_found.
func (c *Client) UndrainInstance(ctx context.Context, name string) (*Drain, error) {
	return c.drain(ctx, name, "undrain")
}

// GiveUpInstance gives up an instance of store mode that does not come back: what its buckets held
// goes to quarantine, or back to the total where a budget says so, and it is drained. Errors:
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
// instance_not_found; outcome_unknown if a lane cannot be reached: the service continues to recover
// that lane, and has not begun the following ones. The client does not retry it, because each call
// restarts the buckets.
func (c *Client) RecoverInstance(ctx context.Context, name string) (*Instance, error) {
	var answer Instance
	_, err := c.do(ctx, onInstance(name, "recover", false), &answer)
	return result(&answer, err)
}

// Rebalance is what a rebalance moved or, on a dry run, would move.
type Rebalance struct {
	DryRun bool `json:"dry_run"`
	// Budgets were looked at. Misplaced buckets did not lie where they belong, of which Moved have
	// moved.
	Budgets   int `json:"budgets"`
	Misplaced int `json:"misplaced"`
	Moved     int `json:"moved"`
	// Moves are the first of them.
	Moves []BucketMove `json:"moves"`
	// Problem says what keeps buckets where they are.
	Problem string `json:"problem,omitzero"`
}

// BucketMove is a bucket that changes its lane, such as redis-1/0.
type BucketMove struct {
	Bucket string `json:"bucket"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// Rebalance gives instances that are new or came back their share of the existing buckets. On a dry
// run it moves nothing. Repeating it moves what is left.
func (c *Client) Rebalance(ctx context.Context, dryRun bool) (*Rebalance, error) {
	var answer Rebalance
	_, err := c.do(ctx, call{op: "rebalance", method: http.MethodPost,
		path: []string{"v1", "instances:rebalance"}, body: struct {
			DryRun bool `json:"dry_run"`
		}{dryRun}, repeatable: true}, &answer)
	return result(&answer, err)
}

func onInstance(name, verb string, repeatable bool) call {
	return call{op: verb, method: http.MethodPost, path: []string{"v1", "instances", name, verb},
		repeatable: repeatable}
}

// Healthz reports whether the process lives: nil if it does. One attempt.
func (c *Client) Healthz(ctx context.Context) error { return c.probe(ctx, "healthz") }

// Readyz reports whether the service can serve: nil if it can, a *Problem with Reasons if it
// cannot. One attempt.
func (c *Client) Readyz(ctx context.Context) error { return c.probe(ctx, "readyz") }

func (c *Client) probe(ctx context.Context, name string) error {
	return c.send(ctx, call{op: name, method: http.MethodGet, path: []string{name}}, nil)
}

// Node is a budgetd that uses the service's database.
type Node struct {
	// Name is its node.name, Address where it listens.
	Name    string `json:"name"`
	Address string `json:"address"`
	Version string `json:"version"`
	// SeenAt is when it last said that it runs; it does so every few seconds.
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
}

// NodeList is the nodes that were seen within 30 days.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}

// Nodes returns the nodes that use the service's database, by name.
func (c *Client) Nodes(ctx context.Context) (*NodeList, error) {
	var answer NodeList
	_, err := c.do(ctx, call{
		op: "nodes", method: http.MethodGet, path: []string{"v1", "nodes"}, repeatable: true,
	}, &answer)
	return result(&answer, err)
}
