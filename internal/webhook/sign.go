// Package webhook sends messages to endpoints as Standard Webhooks says: signed, at least once, and
// to nobody within the operator's own network unless the configuration allows it.
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

// Bounds of a secret's key, in bytes, as the standard has them.
const leastKey, mostKey = 24, 64

// secretPrefix begins a secret in its usual form; the rest is base64.
const secretPrefix = "whsec_"

// maxSecrets is how many secrets a file may have.
const maxSecrets = 4

// Secrets are files in a folder, one for each name: a secret a line, the newest first. All of them
// sign, so that a receiver that knows any of them accepts the message while they are exchanged. A
// file is read for each attempt.
type Secrets struct{ Dir string }

// keys reads the secrets of a name. An error names the file and never a secret.
func (s Secrets) keys(name string) (keys []secret.Text, err error) {
	if s.Dir == "" {
		return nil, errors.New("webhooks.secrets_dir is not set")
	}
	source, err := secret.File(filepath.Join(s.Dir, name))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(source.Now().Reveal()) {
		text := strings.TrimSpace(line)
		if text == "" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, secretPrefix))
		if err != nil || len(key) < leastKey || len(key) > mostKey {
			return nil, fmt.Errorf("%s: secret %d is not %s and %d to %d bytes in base64", source.Name(),
				len(keys)+1, secretPrefix, leastKey, mostKey)
		}
		keys = append(keys, secret.New(string(key)))
	}
	if len(keys) == 0 || len(keys) > maxSecrets {
		return nil, fmt.Errorf("%s has %d secrets, 1 to %d are allowed", source.Name(), len(keys),
			maxSecrets)
	}
	return keys, nil
}

// Check returns what is wrong with the secrets of a name; nil if a message can be signed.
func (s Secrets) Check(name string) error {
	_, err := s.keys(name)
	return err
}

// signatures signs a message with each key: the value of webhook-signature.
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
