package tlsfiles

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// maxFileBytes bounds a file; all public authorities together take 250 kB.
const maxFileBytes = 4 << 20

// readFile reads a file of at most maxFileBytes.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxFileBytes)
	}
	return text, err
}

// fingerprint identifies the contents of files.
type fingerprint [sha256.Size]byte

func printOf(texts [][]byte) (out fingerprint) {
	hash := sha256.New()
	for _, text := range texts {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
		hash.Write(text)
	}
	hash.Sum(out[:0])
	return out
}

// pool parses the certificates of authorities.
func pool(name string, text []byte) (*x509.CertPool, error) {
	out := x509.NewCertPool()
	if !out.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", name)
	}
	return out, nil
}
