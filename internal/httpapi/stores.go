package httpapi

import (
	"context"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Stores reports the state of the service, its stores and its nodes.
type Stores interface {
	Partitions(ctx context.Context) ([]bucket.PartitionView, error)
	// Ready returns the reasons why the service cannot serve; it returns nil if it can.
	Ready(ctx context.Context) []string
	// Missing returns what is out of reach of a service that can serve.
	Missing() []string
	// Nodes lists the nodes seen within 30 days.
	Nodes(ctx context.Context) ([]bucket.Node, error)
}

// Instances moves buckets between stores.
type Instances interface {
	// Drain begins to move every bucket of an instance elsewhere, or returns the progress. Undrain
	// lets buckets be placed on it again.
	Drain(ctx context.Context, instance string) (bucket.DrainView, error)
	Undrain(ctx context.Context, instance string) (bucket.DrainView, error)
	// Recover takes an instance that lost its memory back into service, and returns its partitions.
	Recover(ctx context.Context, instance string) ([]bucket.PartitionView, error)
	// GiveUp gives up a store-mode instance that will not come back.
	GiveUp(ctx context.Context, instance string) (bucket.DrainView, error)
	// Rebalance gives instances their share of the buckets. With dryRun it only returns what it
	// would move.
	Rebalance(ctx context.Context, dryRun bool) (bucket.Rebalance, error)
}

func (a *API) instances(c *call) (answer, error) {
	c.query()
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	partitions, err := a.service.Partitions(c.ctx)
	return answer{body: a.instancesOf(partitions)}, err
}

func (a *API) instancesOf(partitions []bucket.PartitionView) api.InstanceList {
	out := api.InstanceList{Instances: []api.Instance{}}
	at := map[string]int{}
	for _, l := range partitions {
		name := l.Partition.Instance
		i, found := at[name]
		if !found {
			i = len(out.Instances)
			at[name] = i
			out.Instances = append(out.Instances,
				api.Instance{Name: name, Driver: a.drivers[name], Health: "up"})
		}
		instance := &out.Instances[i]
		if !l.Reachable {
			instance.Health = "down"
		}
		instance.Draining = instance.Draining || l.Draining
		instance.Partitions = append(instance.Partitions, api.Partition{
			Partition: l.Partition.Index, Incarnation: l.Incarnation, Reachable: l.Reachable,
			Buckets: l.Buckets, Problem: l.Problem, Role: l.Role, AtRisk: l.AtRisk,
			BeganAt: inUTC(l.BeganAt), Cause: l.Cause})
	}
	return out
}

func (a *API) nodes(c *call) (answer, error) {
	c.query()
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	found, err := a.service.Nodes(c.ctx)
	out := api.NodeList{Nodes: make([]api.Node, len(found))}
	for i, n := range found {
		out.Nodes[i] = api.Node{Name: n.Name, Address: n.Address, State: "down", Version: n.Version,
			ZoneRelease: n.ZoneRelease, StartedAt: inUTC(n.StartedAt), SeenAt: inUTC(n.SeenAt)}
		if n.Up {
			out.Nodes[i].State = "up"
		}
	}
	return answer{body: out}, err
}

func (a *API) drain(c *call) (answer, error) { return c.onInstance(a.service.Drain) }

func (a *API) undrain(c *call) (answer, error) { return c.onInstance(a.service.Undrain) }

func (a *API) giveUp(c *call) (answer, error) { return c.onInstance(a.service.GiveUp) }

// instance returns the instance in the path. The body may be absent or {}.
func (c *call) instance() (string, error) {
	c.query()
	c.target("", c.r.PathValue("name"), "")
	return c.r.PathValue("name"), c.readOptional(&struct{}{})
}

func (c *call) onInstance(
	verb func(context.Context, string) (bucket.DrainView, error)) (answer, error) {
	name, err := c.instance()
	if err != nil {
		return answer{}, err
	}
	v, err := verb(c.ctx, name)
	return answer{body: api.Drain{Instance: v.Instance, Draining: v.Draining, BucketsLeft: v.Left,
		Moved:    v.Moved,
		KeysLeft: v.Uncleared, Done: v.Done, Problem: v.Problem, Quarantined: v.GivenUp.Quarantined,
		Returned: v.GivenUp.Returned}}, err
}

func (a *API) recover(c *call) (answer, error) {
	name, err := c.instance()
	if err != nil {
		return answer{}, err
	}
	partitions, err := a.service.Recover(c.ctx, name)
	out := api.Instance{}
	if all := a.instancesOf(partitions).Instances; len(all) > 0 {
		out = all[0]
	}
	return answer{body: out}, err
}

func (a *API) rebalance(c *call) (answer, error) {
	c.query()
	var body api.RebalanceRequest
	if err := c.readOptional(&body); err != nil {
		return answer{}, err
	}
	done, err := a.service.Rebalance(c.ctx, body.DryRun)
	out := api.Rebalance{DryRun: done.DryRun, Budgets: done.Budgets, Misplaced: done.Misplaced,
		Moved: done.Moved, Moves: make([]api.BucketMove, len(done.Moves)), Problem: done.Problem}
	for i, m := range done.Moves {
		out.Moves[i] = api.BucketMove{Bucket: m.Bucket, From: m.From.String(), To: m.To.String()}
	}
	return answer{body: out}, err
}

// health reports only that this process answers.
func (a *API) health(*call) (answer, error) {
	return answer{body: map[string]string{"status": "up"}}, nil
}

func (a *API) ready(c *call) (answer, error) {
	reasons := a.service.Ready(c.ctx)
	if a.leaving.Load() {
		reasons = append(reasons, "the service is stopping")
	}
	if len(reasons) == 0 {
		missing := append([]string{}, a.service.Missing()...)
		return answer{body: readiness{true, len(missing) > 0, missing}}, nil
	}
	p := ProblemOf(budget.Refuse(budget.Unavailable, "readiness", "the service cannot serve now"))
	p.Reasons = reasons
	return answer{problem: p}, nil
}

// readiness is the answer of a node that serves. If it is degraded, something is out of reach,
// which Reasons name. All callers may read it, so it names instances and no addresses.
type readiness struct {
	Ready    bool     `json:"ready"`
	Degraded bool     `json:"degraded,omitzero"`
	Reasons  []string `json:"reasons"`
}
