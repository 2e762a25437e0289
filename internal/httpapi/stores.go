package httpapi

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Stores tells how the service and what it lives on are doing.
type Stores interface {
	Lanes(ctx context.Context) ([]bucket.LaneView, error)
	// Ready returns why the service cannot serve; nothing: it can.
	Ready(ctx context.Context) []string
}

func (a *API) instances(c *call) (answer, error) {
	c.query()
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	lanes, err := a.service.Lanes(c.ctx)
	out := instanceList{Instances: []instanceView{}}
	at := map[string]int{}
	for _, l := range lanes {
		name := l.Lane.Instance
		i, found := at[name]
		if !found {
			i = len(out.Instances)
			at[name] = i
			out.Instances = append(out.Instances,
				instanceView{Name: name, Driver: a.drivers[name], Health: "up"})
		}
		instance := &out.Instances[i]
		if !l.Reachable {
			instance.Health = "down"
		}
		instance.Lanes = append(instance.Lanes, laneView{l.Lane.Index, l.Activation, l.Reachable, l.Problem})
	}
	return answer{body: out}, err
}

// health says that this process answers, and nothing else.
func (a *API) health(*call) (answer, error) {
	return answer{body: map[string]string{"status": "up"}}, nil
}

func (a *API) ready(c *call) (answer, error) {
	reasons := a.service.Ready(c.ctx)
	if a.leaving.Load() {
		reasons = append(reasons, "the service is stopping")
	}
	if len(reasons) == 0 {
		return answer{body: readiness{Ready: true, Reasons: []string{}}}, nil
	}
	p := problemOf(budget.Refuse(budget.Unavailable, "readiness", "the service cannot serve now"))
	p.Reasons = reasons
	return answer{problem: &p}, nil
}

type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

// instanceView is a configured store with its lanes.
type instanceView struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitzero"`
	// Health is "up", or "down" when a lane could not be reached at the last attempt.
	Health string     `json:"health"`
	Lanes  []laneView `json:"lanes"`
}

type laneView struct {
	Lane       int    `json:"lane"`
	Activation int64  `json:"activation"`
	Reachable  bool   `json:"reachable"`
	Problem    string `json:"problem,omitzero"`
}

type instanceList struct {
	Instances []instanceView `json:"instances"`
}
