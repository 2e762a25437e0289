package daemon

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/internal/secret"
	sqlaccess "github.com/budgetd/budgetd/internal/sql/access"
)

// firstFromFile stores the key in keys.first_admin_file if there are no keys.
func firstFromFile(ctx context.Context, k *sqlaccess.Keys, file string, log *slog.Logger) error {
	if file == "" {
		return nil
	}
	source, err := secret.File(file)
	if err != nil {
		return fmt.Errorf("keys.first_admin_file: %w", err)
	}
	token, why := access.ParseToken(source.Now().Reveal())
	if why != access.Accepted {
		return fmt.Errorf("keys.first_admin_file: %s", why.Message())
	}
	made, err := k.First(ctx, token, "keys.first_admin_file")
	if made {
		log.Info("the key of the first administrator is kept", "key", token.ID(), "file", file)
	}
	return err
}
