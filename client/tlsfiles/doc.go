// Package tlsfiles builds TLS settings from files that may be replaced while the process runs.
// Servers use a new certificate for the next connection and keep open ones; clients read their
// files for every connection. Kubernetes and certbot replace files by swapping symbolic links, so
// contents are compared, not names or times.
//
// TLS 1.2 is the minimum; both sides use the newest version that they share.
package tlsfiles
