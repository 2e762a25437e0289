package contract

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"path"
	"slices"
	"strings"
	"sync"
	"text/template"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"go.yaml.in/yaml/v3"

	"github.com/budgetd/budgetd"
)

// Patterns are the routes of the contract, as net/http's ServeMux takes them.
var Patterns = []string{"GET /openapi.json", "GET /docs", "GET /docs/style.css",
	"GET /docs/errors/{code}"}

// Page is what a path shows.
type Page struct {
	Type string
	Text []byte
}

// Find returns the page of a path. ok is false if the path has no page. It is safe for concurrent
// use.
func Find(path string) (page Page, ok bool) {
	page, ok = pages()[path]
	return page, ok
}

// DocsLink is the path of the page of an error code.
const DocsLink = "/docs/errors/"

//go:embed *.tmpl style.css
var files embed.FS

// pages makes every page, once.
var pages = sync.OnceValue(func() map[string]Page {
	style, err := files.ReadFile("style.css")
	if err != nil {
		panic(err)
	}
	all := map[string]Page{
		"/openapi.json":   {"application/json", JSON()},
		"/docs/style.css": {"text/css; charset=utf-8", style},
	}
	for name, text := range render("docs/errors/", "", "../../docs") {
		at, title := "/docs", read().Info.Title
		if name != apiFile {
			title = strings.TrimSuffix(path.Base(name), ".md")
			at = DocsLink + title
		}
		all[at] = Page{"text/html; charset=utf-8", toHTML(title, strings.Count(at, "/"), text)}
	}
	return all
})

// JSON returns openapi.yaml as JSON.
func JSON() []byte {
	var node yaml.Node
	if err := yaml.Unmarshal(budgetd.OpenAPI, &node); err != nil {
		panic(fmt.Errorf("openapi.yaml: %w", err))
	}
	return append(appendJSON(nil, &node), '\n')
}

// Files returns the pages of docs/ by their names there.
func Files() map[string][]byte { return render("errors/", ".md", "../API.md") }

const apiFile = "API.md"

// render writes all pages in Markdown. before and after stand around a code in links to its page,
// back is the link from there to the document.
func render(before, after, back string) map[string][]byte {
	d := read()
	all := template.Must(template.New("").Funcs(template.FuncMap{
		"type": typeOf, "repeat": repeat, "line": line, "members": members, "examples": examplesOf,
		"calls": d.callsOf, "general": d.general,
		"errorLink":   func(code string) string { return before + code + after },
		"back":        func() string { return back },
		"call_anchor": func(c call) string { return anchor(c.Method + " " + c.Path) },
	}).ParseFS(files, "*.tmpl"))
	write := func(name string, data any) []byte {
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, name, data); err != nil {
			panic(err) // found by the first test
		}
		return out.Bytes()
	}
	out := map[string][]byte{apiFile: write("api.md.tmpl", d)}
	for _, code := range d.Errors {
		out["errors/"+code.Name+".md"] = write("error.md.tmpl", struct {
			named[failure]
			Calls []call
		}{code, d.refusedWith(code.Name)})
	}
	return out
}

// callsOf returns the calls of a tag, all for "".
func (d *document) callsOf(tag string) (calls []call) {
	for _, path := range d.Paths {
		for _, one := range path.Value {
			if tag == "" || slices.Contains(one.Value.Tags, tag) {
				calls = append(calls, one.Value)
			}
		}
	}
	return calls
}

// refusedWith returns the calls that name a code among theirs.
func (d *document) refusedWith(code string) []call {
	return slices.DeleteFunc(d.callsOf(""), func(c call) bool {
		return !slices.Contains(c.Codes, code)
	})
}

// repeat returns what repeating an unchanged request means, by the kind of its code.
func repeat(kind string) string {
	return map[string]string{
		"faulty": "Safe but useless: nothing was changed, and the same request gets the same answer.",
		"refused": "Safe: nothing was changed. Repeat it when the reason for the refusal may have " +
			"changed.",
		"conflict": "Safe but useless: nothing was changed, and the same request gets the same answer.",
		"not done": "Safe and useful: nothing was changed. Wait as `Retry-After` says.",
		"may be done": "Safe and necessary, with the same request id: the request may have been " +
			"executed, and takes effect once.",
	}[kind]
}

// line puts a text on one line.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }

// anchor is what a heading is called in links.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

// general returns the codes that any call may have.
func (d *document) general() (codes []string) {
	for _, code := range d.Errors {
		if code.Value.General {
			codes = append(codes, code.Name)
		}
	}
	return codes
}

// member is a member of an object as a row of its table.
type member struct {
	Name     string
	Required bool
	Value    schema
}

// members returns the members of an object, including those of the parts of an allOf.
func members(s schema) (all []member) {
	for _, part := range append([]schema{s}, s.AllOf...) {
		for _, one := range part.Properties {
			all = append(all, member{one.Name, slices.Contains(part.Required, one.Name), one.Value})
		}
	}
	return all
}

// pretty writes a value of the document as JSON.
func pretty(node yaml.Node) string {
	compact := appendJSON(nil, &node)
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		panic(err)
	}
	if const80 := 80; len(compact) <= const80 {
		return string(compact)
	}
	return out.String()
}

// typeOf says in Markdown what a value is.
func typeOf(s schema) string {
	switch {
	case s.Ref != "":
		name := last(s.Ref)
		return fmt.Sprintf("[%s](#%s)", name, anchor(name))
	case s.Items != nil:
		return "array of " + typeOf(*s.Items)
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Const != "":
		return "`" + s.Const + "`"
	}
	text := strings.Join(s.Type, " or ")
	if s.Format == "date-time" {
		text = strings.Replace(text, "string", "instant", 1)
	}
	if s.Minimum != nil && s.Maximum != nil {
		text += fmt.Sprintf(", %d to %d", *s.Minimum, *s.Maximum)
	}
	if s.Values.Kind == yaml.MappingNode {
		var values schema
		if err := s.Values.Decode(&values); err == nil {
			text += " of " + typeOf(values)
		}
	}
	return text
}

// toHTML makes a page of Markdown. depth is how many slashes its path has. It contains no script
// and no style: the browser is told to accept none.
func toHTML(title string, depth int, markdown []byte) []byte {
	root := strings.Repeat("../", depth-1)
	var out bytes.Buffer
	fmt.Fprintf(&out, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>%s</title><link rel="stylesheet" href="%sdocs/style.css"></head><body><main>
`, html.EscapeString(title), root)
	converter := goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	if err := converter.Convert(markdown, &out); err != nil { // a buffer takes everything
		panic(err)
	}
	out.WriteString("</main></body></html>\n")
	return out.Bytes()
}
