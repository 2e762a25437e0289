// Package testprovider is a small identity provider for tests: discovery, keys, authorization code
// with PKCE, and id tokens signed with RS256. It logs every visitor in as the person that the test
// chose.
package testprovider

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Provider is a running identity provider. Set it up before a visitor comes.
type Provider struct {
	*httptest.Server
	ClientID, ClientSecret string

	mu sync.Mutex
	// claims are those of every visitor. If refuse is set, visitors get this error instead.
	claims map[string]any
	refuse string
	// tamper changes all claims of a token before it is signed. It may be nil.
	tamper func(claims map[string]any)
	codes  map[string]grant
	key    *rsa.PrivateKey
	forger *rsa.PrivateKey // signs in place of key, unless it is nil
}

// keyID is the name of the provider's only key. A forger signs under it, too.
const keyID = "1"

// grant is what an issued code stands for: the authorization request, and the person of that time.
type grant struct {
	challenge, nonce, redirect string
	claims                     map[string]any
}

// New starts a provider, with TLS, for one test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{ClientID: "budgetd", ClientSecret: "client-secret", codes: map[string]grant{}}
	var err error
	if p.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discover)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

// Person makes every visitor this person, and ends the effect of Refuse, Tamper and Forge.
func (p *Provider) Person(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims, p.refuse, p.tamper, p.forger = claims, "", nil, nil
}

// Refuse sends every visitor back with an error, until Person is called.
func (p *Provider) Refuse(code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = code
}

// Tamper changes the claims of subsequent tokens, until Person is called.
func (p *Provider) Tamper(change func(claims map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tamper = change
}

// Forge signs subsequent tokens with a key that is not the provider's, until Person is called.
func (p *Provider) Forge(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.forger, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
}

func (p *Provider) discover(w http.ResponseWriter, _ *http.Request) {
	write(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize",
		"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	write(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256",
		"kid": keyID, "n": encode(p.key.N.Bytes()),
		"e": encode(big.NewInt(int64(p.key.E)).Bytes())}}})
}

// authorize logs the person in and sends the browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := r.URL.Query()
	if q.Get("client_id") != p.ClientID || q.Get("response_type") != "code" ||
		q.Get("code_challenge_method") != "S256" {
		http.Error(w, "no such client, or without PKCE", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	if p.refuse != "" {
		back.Set("error", p.refuse)
	} else {
		code := rand.Text()
		p.codes[code] = grant{q.Get("code_challenge"), q.Get("nonce"), q.Get("redirect_uri"), p.claims}
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code, once, for an id token.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	if id == "" {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	g, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != p.ClientID || secret != p.ClientSecret || !known || encode(challenge[:]) != g.challenge ||
		r.FormValue("redirect_uri") != g.redirect {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		// It tells a secret, as a careless provider may: the login must not pass it on.
		write(w, map[string]any{"error": "invalid_grant",
			"error_description": "code_verifier " + r.FormValue("code_verifier")})
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": p.ClientID, "nonce": g.nonce,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, g.claims)
	if p.tamper != nil {
		p.tamper(claims)
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": p.sign(claims)})
}

// sign returns a signed token.
func (p *Provider) sign(claims map[string]any) string {
	head, _ := json.Marshal(map[string]string{"alg": "RS256", "kid": keyID, "typ": "JWT"})
	body, _ := json.Marshal(claims)
	text := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	key := p.key
	if p.forger != nil {
		key = p.forger
	}
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return text + "." + encode(signature)
}

func encode(bytes []byte) string { return base64.RawURLEncoding.EncodeToString(bytes) }

func write(w http.ResponseWriter, body any) {
	_ = json.NewEncoder(w).Encode(body) //nolint:errcheck // the test sees what arrives
}
