package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadableSecrets checks that a warning names each file with a secret that others may read, its mode
// and the command, and that files for the owner alone, and folders, have none.
func TestReadableSecrets(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	var c Config
	c.Keys.FirstAdminFile, c.TLS.KeyFile, c.OIDC.ClientSecretFile = file("first"), file("tls.key"), file("client")
	c.OIDC.SessionKeyFile, c.Database.DSNFile, c.Database.TLS.KeyFile = file("session"), file("dsn"), file("db.key")
	c.Webhooks.SecretsDir = file("hooks")
	c.Instances = []Instance{{PasswordFile: file("redis"), SentinelPasswordFile: file("sentinel"), TLS: TLS{KeyFile: file("redis.key")}},
		{PasswordFile: file("redis")}}
	names := []string{"first", "tls.key", "client", "session", "dsn", "db.key", "redis", "sentinel", "redis.key", "hooks/one"}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640, 0o604, 0o644} {
		for _, name := range names {
			if err := os.WriteFile(file(name), []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file(name), mode); err != nil {
				t.Fatal(err)
			}
		}
		got := strings.Join(c.Readable(), "\n")
		if mode&0o044 == 0 {
			if got != "" {
				t.Errorf("%04o: %s", mode, got)
			}
			continue
		}
		for _, name := range names {
			if strings.Count(got, "run `chmod 600 "+file(name)+"`") != 1 || !strings.Contains(got, fmt.Sprintf("has mode %04o", mode)) {
				t.Errorf("%04o, %s: %s", mode, name, got)
			}
		}
	}
	c.TLS.KeyFile = file("absent")
	c.Readable()
}
