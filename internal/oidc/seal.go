package oidc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/internal/secret"
)

// minKeyBytes is the shortest line of the session key file: 256 bits, if the bytes are random.
const minKeyBytes = 32

var errSealed = errors.New("oidc: not sealed by this server, or changed since")

// seal encrypts a value under the first line of the key, for one purpose.
func seal(key secret.Text, purpose string, value any) (string, error) {
	sealers, err := sealersOf(key)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, sealers[0].NonceSize())
	rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(sealers[0].Seal(nonce, nonce, text, []byte(purpose))),
		nil
}

// unseal decrypts the result of seal for the same purpose, under any line of the key. To rotate the
// key, put the new line first and remove the old one when its sessions have expired.
func unseal(key secret.Text, purpose, text string, into any) error {
	sealers, err := sealersOf(key)
	if err != nil {
		return err
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return errSealed
	}
	for _, sealer := range sealers {
		if len(sealed) < sealer.NonceSize() {
			return errSealed
		}
		nonce, rest := sealed[:sealer.NonceSize()], sealed[sealer.NonceSize():]
		if opened, err := sealer.Open(nil, nonce, rest, []byte(purpose)); err == nil {
			return json.Unmarshal(opened, into)
		}
	}
	return errSealed
}

// sealersOf derives an AES-256-GCM from each line of a key.
func sealersOf(key secret.Text) ([]cipher.AEAD, error) {
	var out []cipher.AEAD
	for line := range strings.Lines(key.Reveal()) {
		line = strings.TrimRight(line, "\r\n")
		if len(line) < minKeyBytes {
			return nil, fmt.Errorf("oidc: the session key must have at least %d bytes in each line",
				minKeyBytes)
		}
		derived, err := hkdf.Key(sha256.New, []byte(line), nil, "budgetd console session 1", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(derived)
		if err != nil {
			return nil, err
		}
		sealer, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		out = append(out, sealer)
	}
	if out == nil {
		return nil, errors.New("oidc: the session key is empty")
	}
	return out, nil
}
