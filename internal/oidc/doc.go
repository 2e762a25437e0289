// Package oidc lets persons log in to the console with an identity provider (OpenID Connect,
// authorization code with PKCE), and keeps who they are in a sealed cookie.
//
//	browser            budgetd                          provider
//	GET /console/login ── state, nonce, verifier sealed in a cookie
//	   ── redirect ─────────────────────────────────────▶ person logs in
//	GET /console/callback?code&state ── code, verifier ─▶ id token
//	   ◀── session cookie ── signature, issuer, audience, expiry and nonce checked
//
// The server keeps nothing: the session is in the cookie, sealed with AES-256-GCM under a key that
// all nodes have, so every node knows it. It holds who the person is and the groups that give a
// role; the role is decided for each request, by the configuration of now. A session ends after 8
// hours, or 30 minutes without a request. It cannot be ended from the server one by one: exchange
// the session key to end all of them.
package oidc
