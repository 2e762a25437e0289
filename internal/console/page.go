package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// Page serves the page and its files. It is safe for concurrent use.
type Page struct {
	index []byte
	files map[string]file
}

// file is a file of the page. Its contents never change under its name.
type file struct {
	kind        string
	text, small []byte // plain, and compressed
}

// New returns the embedded page. login says that persons can log in with the configured provider.
// It returns an error if the page was not built.
func New(login bool) (*Page, error) {
	p := &Page{files: map[string]file{}}
	index, err := dist.ReadFile("dist/index.html")
	if err != nil {
		return nil, fmt.Errorf("the console was not built: %w", err)
	}
	p.index = bytes.Replace(index, []byte(`name="budgetd-login" content=""`),
		[]byte(`name="budgetd-login" content="`+strconv.FormatBool(login)+`"`), 1)
	entries, err := fs.ReadDir(dist, "dist/assets")
	if err != nil {
		return nil, fmt.Errorf("the console was not built: %w", err)
	}
	for _, entry := range entries {
		text, err := dist.ReadFile("dist/assets/" + entry.Name())
		if err != nil {
			return nil, err
		}
		p.files[entry.Name()] = file{mime.TypeByExtension(path.Ext(entry.Name())), text,
			compressed(text)}
	}
	return p, nil
}

func compressed(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // fails only for an invalid level
	_, _ = w.Write(text)                                    // a buffer cannot fail
	_ = w.Close()
	return out.Bytes()
}

// prefixes matches the paths under which a proxy may serve the page.
var prefixes = regexp.MustCompile(`^(/[A-Za-z0-9._~-]{1,64}){1,8}$`)

// Index serves the page. Its addresses are relative, so that it works under any path. With the
// header X-Forwarded-Prefix they begin with that path, and the page may be requested without the
// final slash.
func (p *Page) Index(w http.ResponseWriter, r *http.Request) {
	text := p.index
	if prefix := strings.TrimRight(r.Header.Get("X-Forwarded-Prefix"), "/"); prefixes.MatchString(
		prefix) {
		text = bytes.ReplaceAll(text, []byte(`="./`), []byte(`="`+html.EscapeString(prefix)+`/`))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // an error means that the caller is gone
}

// File serves a file of the page. The name contains a hash of the contents, so that browsers can
// cache the file.
func (p *Page) File(w http.ResponseWriter, r *http.Request) {
	found, ok := p.files[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	text, header := found.text, w.Header()
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		text = found.small
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Type", found.kind)
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
}
