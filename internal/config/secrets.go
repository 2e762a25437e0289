package config

import "github.com/budgetd/budgetd/internal/secret"

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
