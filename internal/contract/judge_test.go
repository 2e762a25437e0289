package contract_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/errors"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/budgetd/budgetd/internal/contract"
)

// contractOf is the document as others read it, with its judge.
type contractOf struct {
	model *v3.Document
	judge validator.Validator
	// operations are found by their method and path.
	operations map[[2]string]*v3.Operation
}

// everywhere are headers of every answer, as the description says, and those that tell browsers
// what they may do.
var everywhere = []string{"X-Correlation-Id", "Traceparent", "X-Content-Type-Options", "Allow",
	"Content-Security-Policy", "Referrer-Policy", "X-Frame-Options", "Cross-Origin-Opener-Policy",
	"Cross-Origin-Resource-Policy"}

// named are members that callers name, such as dimensions: strict mode knows no schema of them.
var named = []string{"$.body.**.dimensions.*", "$.body.dimensions.*", "$.body.**.counts.*",
	"$.body.counts.*", "$.body.amounts.*", "$.body.budgets.*", "$.query.user"}

// judged reads what /openapi.json shows, once.
var judged = sync.OnceValues(func() (*contractOf, error) {
	read, err := libopenapi.NewDocument(contract.JSON())
	if err != nil {
		return nil, err
	}
	model, err := read.BuildV3Model()
	if err != nil {
		return nil, err
	}
	judge, faults := validator.NewValidator(read, config.WithStrictMode(),
		config.WithFormatAssertions(), config.WithStrictIgnoredHeadersExtra(everywhere...),
		config.WithStrictIgnorePaths(named...))
	if len(faults) > 0 {
		return nil, faults[0]
	}
	d := &contractOf{&model.Model, judge, map[[2]string]*v3.Operation{}}
	for at, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, operation := range item.GetOperations().FromOldest() {
			d.operations[[2]string{strings.ToUpper(method), at}] = operation
		}
	}
	return d, nil
})

func theDocument(t *testing.T) *contractOf {
	t.Helper()
	d, err := judged()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// operationOf returns what the document says of the call of a request, or nil if it does not have
// the call.
func (d *contractOf) operationOf(r *http.Request) *v3.Operation {
	if at := r.URL.EscapedPath(); path.Clean(at) != at {
		return nil // a ServeMux would redirect it, budgetd does not
	}
	mux := http.NewServeMux()
	for at := range d.operations {
		pattern := at[0] + " " + at[1]
		if at[1] == "/" {
			pattern += "{$}"
		}
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	_, pattern := mux.Handler(r)
	method, at, _ := strings.Cut(pattern, " ")
	return d.operations[[2]string{method, strings.TrimSuffix(at, "{$}")}]
}

// extension decodes an extension of an operation.
func extension[V any](o *v3.Operation, name string) (value V) {
	if node, ok := o.Extensions.Get(name); ok {
		_ = node.Decode(&value)
	}
	return value
}

// judgeRequest returns what is wrong with a request by the document.
func (d *contractOf) judgeRequest(e *exchange) []string {
	r := e.request.Clone(e.request.Context())
	r.Body = io.NopCloser(strings.NewReader(e.sent))
	_, faults := d.judge.ValidateHttpRequestSync(r)
	return words(faults)
}

// judgeAnswer returns what is wrong with an answer by the document.
func (d *contractOf) judgeAnswer(e *exchange) []string {
	r, answer := e.request.Clone(e.request.Context()), *e.answer
	r.Body = io.NopCloser(strings.NewReader(e.sent))
	answer.Body = io.NopCloser(bytes.NewReader(e.received))
	_, faults := d.judge.ValidateHttpResponse(r, &answer)
	return words(faults)
}

func words(faults []*errors.ValidationError) (all []string) {
	for _, fault := range faults {
		text := fault.Message + ": " + fault.Reason
		for _, detail := range fault.SchemaValidationErrors {
			text += "; " + detail.Reason
		}
		all = append(all, text)
	}
	return all
}

// TestDocument checks that /openapi.json is a valid OpenAPI 3.1 document, and that the schema of
// every JSON body has a name.
func TestDocument(t *testing.T) {
	d := theDocument(t)
	if ok, faults := d.judge.ValidateDocument(); !ok {
		t.Error(words(faults))
	}
	for at, operation := range d.operations {
		if operation.RequestBody != nil {
			for media, content := range operation.RequestBody.Content.FromOldest() {
				if !content.Schema.IsReference() || media != "application/json" {
					t.Errorf("%s: the schema of its body has no name", at)
				}
			}
		}
		for status, answer := range operation.Responses.Codes.FromOldest() {
			for media, content := range answer.Content.FromOldest() {
				if strings.HasSuffix(media, "json") && at[1] != "/openapi.json" &&
					!content.Schema.IsReference() {
					t.Errorf("%s: the schema of the body of %s has no name", at, status)
				}
			}
		}
	}
}

// codeOf returns the code of a problem, "" for any other answer.
func codeOf(e *exchange) string {
	var p struct{ Code string }
	_ = json.Unmarshal(e.received, &p)
	return p.Code
}
