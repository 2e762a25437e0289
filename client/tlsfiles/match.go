package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
)

// Field is a part of a certificate that identifies its holder.
type Field string

// The fields. Subject is the whole distinguished name in RFC 2253 form; the others are subject
// alternative names, of which a certificate may have several.
const (
	Subject Field = "subject"
	DNS     Field = "dns"
	URI     Field = "uri"
	Email   Field = "email"
)

// Fields returns all fields.
func Fields() []Field { return []Field{Subject, DNS, URI, Email} }

// Match selects certificates by one field, compared byte by byte.
type Match struct {
	Field Field
	Value string
}

// Fits reports whether a certificate has the value. An empty Match fits none.
func (m Match) Fits(certificate *x509.Certificate) bool {
	if m.Value == "" {
		return false
	}
	switch m.Field {
	case Subject:
		return certificate.Subject.String() == m.Value
	case DNS:
		return slices.Contains(certificate.DNSNames, m.Value)
	case Email:
		return slices.Contains(certificate.EmailAddresses, m.Value)
	case URI:
		for _, uri := range certificate.URIs {
			if uri.String() == m.Value {
				return true
			}
		}
	}
	return false
}

// Verified returns the caller's certificate if the handshake verified it against the client CA,
// else nil.
func Verified(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}
