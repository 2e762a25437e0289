package access

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// NodeList is the list of the nodes that use a database. Each node refreshes its own row. The list
// is for display only. It is safe for concurrent use.
type NodeList struct{ db *engine.DB }

// NodesIn returns the list of a database.
func NodesIn(db *engine.DB) *NodeList { return &NodeList{db: db} }

const (
	refreshNode = `UPDATE node SET address = ?, version = ?, zone_release = ?, started_ms = ?,
		seen_ms = ? WHERE name = ?`
	insertNode  = `INSERT INTO node (address, version, zone_release, started_ms, seen_ms, name)`
	nodeColumns = 6
	forgetNodes = `DELETE FROM node WHERE seen_ms < ?`
	listNodes   = `SELECT name, address, version, zone_release, started_ms, seen_ms FROM node
		ORDER BY name LIMIT 1000`
	keepNodes = 30 * 24 * time.Hour
	// nodeDown is after how long a node that has not refreshed its row counts as down. It does so
	// every two seconds.
	nodeDown = 15 * time.Second
)

// Seen records at SQL's time that a node runs, and removes nodes that were not seen for 30 days.
// Errors: Unavailable, OutcomeUnknown.
func (l *NodeList) Seen(ctx context.Context, n bucket.Node) error {
	return l.db.Write(ctx, "node seen", func(t *engine.Tx) error {
		row := []any{[]byte(n.Address), []byte(n.Version), []byte(n.ZoneRelease),
			engine.ToMS(n.StartedAt), engine.ToMS(t.Now), []byte(n.Name)}
		found, err := t.Exec(refreshNode, row...)
		if err != nil || found > 0 {
			return err
		}
		if _, err := t.Exec(forgetNodes, engine.ToMS(t.Now.Add(-keepNodes))); err != nil {
			return err
		}
		return t.Insert(insertNode, nodeColumns, row)
	})
}

// Nodes returns the nodes seen within 30 days, sorted by name, at most 1,000. Error: Unavailable.
func (l *NodeList) Nodes(ctx context.Context) (out []bucket.Node, err error) {
	var found []struct {
		Name    string `db:"name"`
		Address string `db:"address"`
		Version string `db:"version"`
		Zones   string `db:"zone_release"`
		Started int64  `db:"started_ms"`
		Seen    int64  `db:"seen_ms"`
	}
	err = l.db.Read(ctx, "nodes", func(r *engine.Reader) error { return r.List(&found, listNodes) })
	now := l.db.Now()
	for _, n := range found {
		out = append(out, bucket.Node{Name: n.Name, Address: n.Address, Version: n.Version,
			ZoneRelease: n.Zones, StartedAt: engine.FromMS(n.Started), SeenAt: engine.FromMS(n.Seen),
			Up: now.Sub(engine.FromMS(n.Seen)) < nodeDown})
	}
	return out, err
}
