package client

import (
	"context"
	"net/http"
)

// Instance is a store that buckets live in.
type Instance struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitzero"`
	// Health is "up", or "down" when a lane could not be reached at the last attempt.
	Health string `json:"health"`
	Lanes  []Lane `json:"lanes"`
}

// Lane is the part of an instance in which one script can touch every key.
type Lane struct {
	// Lane is the number of the lane within the instance, from 0.
	Lane int `json:"lane"`
	// Activation is the number of the lane's incarnation that the database has verified.
	Activation int64 `json:"activation"`
	// Reachable says whether the last attempt reached it, Problem why not.
	Reachable bool   `json:"reachable"`
	Problem   string `json:"problem,omitzero"`
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

// Healthz reports whether the process lives: nil if it does. One attempt.
func (c *Client) Healthz(ctx context.Context) error { return c.probe(ctx, "healthz") }

// Readyz reports whether the service can serve: nil if it can, a *Problem with Reasons if it
// cannot. One attempt.
func (c *Client) Readyz(ctx context.Context) error { return c.probe(ctx, "readyz") }

func (c *Client) probe(ctx context.Context, name string) error {
	return c.send(ctx, call{op: name, method: http.MethodGet, path: []string{name}}, nil)
}
