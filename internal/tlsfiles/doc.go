// Package tlsfiles makes TLS settings from files that are exchanged while the process runs. Servers
// take a new certificate for the next connection and leave open ones alone; clients read their
// files for every connection that they make. Kubernetes and certbot exchange files by swapping
// symbolic links, so contents are compared, never names or times.
//
// TLS 1.2 is the least version; both sides take the newest that they know.
package tlsfiles
