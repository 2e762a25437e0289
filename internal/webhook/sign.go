// Package webhook sends messages to endpoints according to Standard Webhooks: signed, at least
// once, and not to the operator's own network unless the configuration allows it.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/internal/secret"
)

// The bounds of a secret's key in Standard Webhooks, in bytes.
const minKeyBytes, maxKeyBytes = 24, 64

// secretPrefix begins a secret in its usual form. Base64 follows.
const secretPrefix = "whsec_"

// maxSecrets bounds the secrets of a file.
const maxSecrets = 4

// Secrets reads secrets from files, one file per name with one secret per line, the newest first.
// Those of a tenant are in tenants/TENANT in the folder Dir, those of endpoints of all tenants in
// Dir itself. A message is signed with every secret, so a receiver that knows one of them accepts
// it during a rotation. The file is read for each attempt.
type Secrets struct{ Dir string }

// keys reads the secrets of a name of a tenant. An error names the file and contains no secret.
func (s Secrets) keys(tenant, name string) (keys []secret.Text, err error) {
	if s.Dir == "" {
		return nil, errors.New("webhooks.secrets_dir is not set")
	}
	dir := s.Dir
	if tenant != "" {
		dir = filepath.Join(dir, "tenants", tenant)
	}
	source, err := secret.File(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(source.Now().Reveal()) {
		text := strings.TrimSpace(line)
		if text == "" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, secretPrefix))
		if err != nil || len(key) < minKeyBytes || len(key) > maxKeyBytes {
			return nil, fmt.Errorf("%s: secret %d is not %s and %d to %d bytes in base64", source.Name(),
				len(keys)+1, secretPrefix, minKeyBytes, maxKeyBytes)
		}
		keys = append(keys, secret.New(string(key)))
	}
	if len(keys) == 0 || len(keys) > maxSecrets {
		return nil, fmt.Errorf("%s has %d secrets, 1 to %d are allowed", source.Name(), len(keys),
			maxSecrets)
	}
	return keys, nil
}

// Check returns why the secrets of a name of a tenant cannot sign a message, or nil if they can.
func (s Secrets) Check(tenant, name string) error {
	_, err := s.keys(tenant, name)
	return err
}

// signatures returns the value of webhook-signature: a message's signature by each key.
func signatures(keys []secret.Text, id string, at time.Time, body []byte) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, []byte(key.Reveal()))
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		parts[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(parts, " ")
}
