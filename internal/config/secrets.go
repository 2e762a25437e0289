package config

import "github.com/budgetd/budgetd/internal/secret"

// source returns where a secret comes from: its file, else its value. It fails when the file cannot
// be read.
func source(value secret.Text, file string) (*secret.Source, error) {
	if file != "" {
		return secret.File(file)
	}
	return secret.Value(value), nil
}

// Source returns where the DSN comes from, to be read for each connection.
func (d Database) Source() (*secret.Source, error) { return source(d.DSN, d.DSNFile) }

// Source returns where the password comes from, to be read for each connection.
func (i Instance) Source() (*secret.Source, error) { return source(i.Password, i.PasswordFile) }

// SentinelSource returns where the sentinels' password comes from, to be read for each connection.
func (i Instance) SentinelSource() (*secret.Source, error) {
	return source(i.SentinelPassword, i.SentinelPasswordFile)
}

// Source returns where the client secret comes from.
func (o OIDC) Source() (*secret.Source, error) { return source(o.ClientSecret, o.ClientSecretFile) }

// SessionSource returns where the key that seals sessions comes from.
func (o OIDC) SessionSource() (*secret.Source, error) { return secret.File(o.SessionKeyFile) }
