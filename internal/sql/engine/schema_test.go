package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/budgetd/budgetd/internal/sql/engine"
)

func TestSchemaOpensEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budgetd.db")
	for range 2 {
		db, err := engine.Open(t.Context(), engine.Config{Driver: "sqlite", DSN: path})
		if err != nil {
			t.Fatal(err)
		}
		if len(db.InstallationID()) != 32 {
			t.Errorf("installation id %q", db.InstallationID())
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
