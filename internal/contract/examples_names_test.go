package contract_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The ids of the document's examples.
const keyExample, hookExample, messageExample = "4t7kq2ab9c3x", "ep_7rl2702mv8", "msg_019ac0"

// names are what the document calls by another name than the server, which chooses it.
type names map[string]string

// learn notes the ids of what was made.
func (n names) learn(answer []byte) {
	var made struct{ ID, Token, Message string }
	_ = json.Unmarshal(answer, &made) // lists and pages make nothing
	switch {
	case made.Token != "":
		n[keyExample] = made.ID
	case strings.HasPrefix(made.ID, "ep_"):
		n[hookExample] = made.ID
	case strings.HasPrefix(made.Message, "msg_"):
		n[messageExample] = made.Message
	}
}

// here is a text of the document with the server's names.
func (n names) here(text string) string {
	for document, server := range n {
		text = strings.ReplaceAll(text, document, server)
	}
	return text
}

// inDocument is an answer with the document's names.
func (n names) inDocument(answer []byte) []byte {
	for document, server := range n {
		answer = bytes.ReplaceAll(answer, []byte(server), []byte(document))
	}
	return answer
}

// receives starts a receiver of webhooks, and writes the secret called shop, for all tenants and for
// the tenant shop.
func receives(t *testing.T) (secrets, url string) {
	t.Helper()
	secrets = t.TempDir()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	for _, folder := range []string{secrets, filepath.Join(secrets, "tenants", "shop")} {
		err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "shop"), []byte(secret), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	return secrets, receiver.URL + "/budgetd"
}
