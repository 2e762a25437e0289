package memstore_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

func TestSQLConforms(t *testing.T) {
	storetest.RunSQL(t, func(_ *testing.T, clock func() time.Time) bucket.SQL {
		return memstore.NewSQL(clock)
	})
}
