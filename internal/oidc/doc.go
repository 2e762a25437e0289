// Package oidc logs people in to the console with an identity provider (OpenID Connect,
// authorization code with PKCE), and keeps their identity in a sealed cookie.
//
//	browser            budgetd                          provider
//	GET /console/login ── state, nonce, verifier sealed in a cookie
//	   ── redirect ─────────────────────────────────────▶ person logs in
//	GET /console/callback?code&state ── code, verifier ─▶ id token
//	   ◀── session cookie ── signature, issuer, audience, expiry and nonce checked
//
// The server stores nothing. The session is in the cookie, sealed with AES-256-GCM under a key that
// all nodes share, so every node accepts it. It holds the person's identity and the groups that
// give a role; each request derives the role from the present configuration. A session ends after 8
// hours, or 30 minutes without a request. The server cannot end a single session: replace the
// session key to end all of them.
package oidc
