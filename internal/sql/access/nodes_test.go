package access_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/access"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/google/go-cmp/cmp"
)

// TestNodes checks that each node has one row, which it refreshes also under another version, that
// one that no longer does is down, and that a new node removes the rows of nodes not seen for 30 days.
func TestNodes(t *testing.T) {
	fixture.OnEveryEngine(t, func(w *fixture.World) {
		part := access.NodesIn(w.DB)
		seen := func(name, version string) bucket.Node {
			n := bucket.Node{Name: name, Address: "10.0.0.7:8080", Version: version,
				ZoneRelease: "2025c", StartedAt: engine.FromMS(1_700_000_000_000), Up: true}
			w.OK(part.Seen(w.Ctx, n))
			return n
		}
		check := func(want ...bucket.Node) {
			t.Helper()
			got, err := part.Nodes(w.Ctx)
			w.OK(err)
			for i := range got {
				if ago := w.DB.Now().Sub(got[i].SeenAt); ago < -time.Minute || ago > time.Hour {
					t.Errorf("%s was seen %s ago", got[i].Name, ago)
				}
				got[i].SeenAt = time.Time{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
		b, _ := seen("b", "v1"), seen("a", "v1")
		check(seen("a", "v2"), b)
		w.Exec([]any{`UPDATE node SET seen_ms = seen_ms - 15001 WHERE name = ?`, []byte("b")})
		b.Up = false
		check(seen("a", "v2"), b)
		w.Exec([]any{`UPDATE node SET seen_ms = 1 WHERE name = ?`, []byte("b")})
		check(seen("a", "v2"), seen("c", "v2"))
	})
}
