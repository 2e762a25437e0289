package config

import (
	"io/fs"
	"path/filepath"

	"github.com/budgetd/budgetd/internal/secret"
)

// Readable returns a warning for each file with a secret that others than its owner may read.
func (c Config) Readable() (warnings []string) {
	files := []string{c.Keys.FirstAdminFile, c.TLS.KeyFile, c.OIDC.ClientSecretFile,
		c.OIDC.SessionKeyFile, c.Database.DSNFile, c.Database.TLS.KeyFile}
	for _, i := range c.Instances {
		files = append(files, i.PasswordFile, i.SentinelPasswordFile, i.TLS.KeyFile)
	}
	if dir := c.Webhooks.SecretsDir; dir != "" {
		//nolint:errcheck // a folder that cannot be read is reported where it is used
		_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error {
			files = append(files, name)
			return nil
		})
	}
	said := map[string]bool{"": true}
	for _, file := range files {
		if why := secret.Exposed(file); !said[why] {
			said[why] = true
			warnings = append(warnings, why)
		}
	}
	return warnings
}

// source returns the source of a secret: its file, else its value. It returns an error if the file
// cannot be read.
func source(value secret.Text, file string) (*secret.Source, error) {
	if file != "" {
		return secret.File(file)
	}
	return secret.Value(value), nil
}

// Source returns the source of the DSN, to be read for each connection.
func (d Database) Source() (*secret.Source, error) { return source(d.DSN, d.DSNFile) }

// Source returns the source of the password, to be read for each connection.
func (i Instance) Source() (*secret.Source, error) { return source(i.Password, i.PasswordFile) }

// SentinelSource returns the source of the sentinels' password, to be read for each connection.
func (i Instance) SentinelSource() (*secret.Source, error) {
	return source(i.SentinelPassword, i.SentinelPasswordFile)
}

// Source returns the source of the client secret.
func (o OIDC) Source() (*secret.Source, error) { return source(o.ClientSecret, o.ClientSecretFile) }

// SessionSource returns the source of the key that seals sessions.
func (o OIDC) SessionSource() (*secret.Source, error) { return secret.File(o.SessionKeyFile) }
