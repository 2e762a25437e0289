package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
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

func (a *API) instancesOf(partitions []bucket.PartitionView) instanceList {
	out := instanceList{Instances: []instanceView{}}
	at := map[string]int{}
	for _, l := range partitions {
		name := l.Partition.Instance
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
		instance.Draining = instance.Draining || l.Draining
		instance.Partitions = append(instance.Partitions, partitionView{l.Partition.Index, l.Incarnation,
			l.Reachable, l.Buckets, l.Problem, l.Role, l.AtRisk, wire.InUTC(l.BeganAt), l.Cause})
	}
	return out
}

func (a *API) nodes(c *call) (answer, error) {
	c.query()
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	found, err := a.service.Nodes(c.ctx)
	out := nodeList{Nodes: make([]nodeView, len(found))}
	for i, n := range found {
		out.Nodes[i] = nodeView{n.Name, n.Address, "down", n.Version, n.ZoneRelease,
			wire.InUTC(n.StartedAt), wire.InUTC(n.SeenAt)}
		if n.Up {
			out.Nodes[i].State = "up"
		}
	}
	return answer{body: out}, err
}

type nodeList struct {
	Nodes []nodeView `json:"nodes"`
}

type nodeView struct {
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	State     string    `json:"state"`
	Version   string    `json:"version"`
	Zones     string    `json:"zone_release"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
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
	return answer{body: drainView{Instance: v.Instance, Draining: v.Draining, BucketsLeft: v.Left,
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
	out := instanceView{}
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
	out := rebalanceView{DryRun: done.DryRun, Budgets: done.Budgets, Misplaced: done.Misplaced,
		Moved: done.Moved, Moves: make([]bucketMove, len(done.Moves)), Problem: done.Problem}
	for i, m := range done.Moves {
		out.Moves[i] = bucketMove{m.Bucket, m.From.String(), m.To.String()}
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
	p := wire.ProblemOf(budget.Refuse(budget.Unavailable, "readiness", "the service cannot serve now"))
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

// instanceView is a configured store with its partitions.
type instanceView struct {
	Name   string `json:"name"`
	Driver string `json:"driver,omitzero"`
	// Health is "up", or "down" if the last attempt to reach a partition failed.
	Health string `json:"health"`
	// Draining means that its buckets move to other instances.
	Draining   bool            `json:"draining"`
	Partitions []partitionView `json:"partitions"`
}

type partitionView struct {
	Partition   int    `json:"partition"`
	Incarnation int64  `json:"incarnation"`
	Reachable   bool   `json:"reachable"`
	Buckets     *int   `json:"buckets,omitzero"`
	Problem     string `json:"problem,omitzero"`
	Role        string `json:"role,omitzero"`
	// AtRisk is what a loss of its memory would cost, in minor units.
	AtRisk *int64 `json:"at_risk,omitzero"`
	// BeganAt is when the partition got its present memory. Cause says why.
	BeganAt time.Time `json:"began_at,omitzero"`
	Cause   string    `json:"cause,omitzero"`
}

// drainView is the progress of draining an instance.
type drainView struct {
	Instance    string `json:"instance"`
	Draining    bool   `json:"draining"`
	BucketsLeft int    `json:"buckets_left"`
	Moved       int    `json:"moved"`
	KeysLeft    int    `json:"keys_left"`
	Done        bool   `json:"done"`
	Problem     string `json:"problem,omitzero"`
	// Quarantined and Returned are what its buckets held when it was given up, in minor units.
	Quarantined int64 `json:"quarantined,omitzero"`
	Returned    int64 `json:"returned,omitzero"`
}

// rebalanceView is what a rebalance moved or, on a dry run, would move.
type rebalanceView struct {
	DryRun bool `json:"dry_run"`
	// Budgets is the number of budgets examined. Misplaced buckets are not where they belong; Moved
	// ones have moved.
	Budgets   int `json:"budgets"`
	Misplaced int `json:"misplaced"`
	Moved     int `json:"moved"`
	// Moves lists the first moves.
	Moves   []bucketMove `json:"moves"`
	Problem string       `json:"problem,omitzero"`
}

// bucketMove is a bucket that moves between partitions, such as redis-1/0.
type bucketMove struct {
	Bucket string `json:"bucket"`
	From   string `json:"from"`
	To     string `json:"to"`
}

type instanceList struct {
	Instances []instanceView `json:"instances"`
}
