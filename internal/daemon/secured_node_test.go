package daemon

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	sqlaccess "github.com/budgetd/budgetd/internal/sql/access"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// securedNode is a node with authentication by keys. The test sets the clock by which keys expire, and
// says when the node reads changed keys (follow). It runs only the loops that buckets need.
type securedNode struct {
	t        *testing.T
	dir      string // has the database
	backends *backends
	security *security
	service  *node
	url      string
	root     string // the first administrator's key
	now      time.Time
	spans    *tracetest.SpanRecorder
	calls    atomic.Int64
	follow   func()          // reads the changed keys from the database
	halt     func()          // ends the loops
	heard    func() []string // returns and forgets the statements that the database logged; may be nil
}

// newSecuredNode opens a securedNode, with further settings in the form of os.Environ.
func newSecuredNode(t *testing.T, settings ...string) *securedNode {
	t.Helper()
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	secret := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, folder := range []string{dir, filepath.Join(dir, "tenants", "shop")} {
		err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "hooks"), []byte(secret), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load("", append([]string{"BUDGETD_AUTH=keys", "BUDGETD_KEYS_STALE_AFTER=1h",
		"BUDGETD_DATABASE_DSN=" + filepath.Join(dir, "budgetd.db"), "BUDGETD_WEBHOOKS_SECRETS_DIR=" + dir,
		"BUDGETD_DEDUCT_DEADLINE=20s", "BUDGETD_HTTP_REQUEST_TIMEOUT=30s"}, settings...)) // long deadlines, for a busy machine
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(err)
	o := &securedNode{t: t, dir: dir, spans: tracetest.NewSpanRecorder(), now: time.Now()}
	o.backends, err = open(ctx, c, log)
	ok(err)
	t.Cleanup(func() { o.backends.close(log) })
	token, err := access.NewToken(rand.Reader)
	ok(err)
	_, err = (&sqlaccess.Keys{DB: o.backends.db}).First(ctx, token, "test")
	ok(err)
	o.root = token.Reveal()
	o.security, err = o.backends.security(ctx, c, log)
	ok(err)
	o.security.auth.Now = func() time.Time { return o.now }
	keys := slices.IndexFunc(o.security.work, func(l loop) bool { return l.name == "keys" })
	o.follow = func() { t.Helper(); ok(o.security.work[keys].once(ctx)) }
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(o.spans)).Tracer("test")
	service, err := o.backends.service(c, log, metrics.New("test"), tracer)
	ok(err)
	o.service = service
	service.start(ctx, log)
	o.halt = func() { t.Helper(); ok(service.stop(context.WithoutCancel(ctx))) }
	t.Cleanup(o.halt)
	api := httpapi.New(httpapi.Config{Service: service, Limits: limitsOf(c.HTTP), Log: log, Auth: o.security.auth, Tracer: tracer,
		AuditLog: o.security.auditLog, Keys: o.security.keys, Names: service.manage, Alerts: service.alerts,
		Webhooks: service.alerts.Outbox, Dashboard: service.dashboard, Gauges: service.gauges,
		Metrics: http.NotFoundHandler(), SQLNow: o.backends.db.Now})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(err)
	o.url = "http://" + listener.Addr().String()
	server := httpapi.NewServer(api, limitsOf(c.HTTP), log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		ok(server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return o
}

// reply is the answer to a call, and the spans of the database below the call's.
type reply struct {
	status      int
	text        string
	correlation string
	steps       []string
	// statements are those of the database's log, without their values.
	statements []string
}

// ask makes a call with a key in a new trace.
func (o *securedNode) ask(token, method, path, body string) reply {
	o.t.Helper()
	r, err := http.NewRequest(method, o.url+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	trace := fmt.Sprintf("%032x", o.calls.Add(1))
	if o.heard != nil {
		o.heard()
	}
	r.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	out := reply{status: answer.StatusCode, correlation: answer.Header.Get("X-Correlation-Id"),
		text: string(text)}
	// The span ends after the answer is sent. A stream has no span.
	for began, ended := time.Now(), strings.Contains(path, "/events?"); !ended; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			o.t.Fatalf("%s %s has no span", method, path)
		}
		out.steps = nil
		for _, span := range o.spans.Ended() {
			switch {
			case span.SpanContext().TraceID().String() != trace:
			case span.Parent().IsRemote():
				ended = true
			default:
				out.steps = append(out.steps, span.Name())
			}
		}
	}
	if o.heard != nil {
		out.statements = o.heard()
	}
	return out
}

// newLoggedNode opens a securedNode on a MariaDB that logs every statement.
func newLoggedNode(t *testing.T) *securedNode {
	t.Helper()
	server := testservers.MariaDB(t)
	server.Execute(t, "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON")
	log, err := sql.Open("mysql", server.DSN("mysql"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	log.SetMaxOpenConns(1) // the connection id identifies its own statements
	o := newSecuredNode(t, "BUDGETD_DATABASE_DRIVER=mysql", "BUDGETD_DATABASE_DSN="+server.NewDatabase(t))
	o.heard = func() (all []string) {
		t.Helper()
		// Periodic statements of connections, and the first ones of a new one, do not belong to a call.
		rows, err := log.Query("SELECT argument FROM mysql.general_log WHERE thread_id <> CONNECTION_ID() AND command_type IN " +
			"('Query', 'Execute') AND argument NOT LIKE 'SET %' AND argument NOT LIKE 'SELECT @@%' " +
			"AND argument NOT LIKE 'SELECT CONNECTION\\_ID()%'")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			all = append(all, values.ReplaceAllString(text, "?"))
		}
		rows.Close()
		if _, err := log.Exec("TRUNCATE mysql.general_log"); rows.Err() != nil || err != nil {
			t.Fatal(rows.Err(), err)
		}
		return all
	}
	return o
}

// values are texts and numbers in a statement.
var values = regexp.MustCompile(`(?s)(_binary)?\bx?'(\\.|[^'\\])*'|(_binary)?'(\\.|[^'\\])*'|\b\d+\b`)

// done makes a call that must succeed, and reads the answer into a value unless that is nil.
func (o *securedNode) done(token, method, path, body string, into any) reply {
	o.t.Helper()
	got := o.ask(token, method, path, body)
	if got.status/100 != 2 {
		o.t.Fatalf("%s %s: %d %s", method, path, got.status, got.text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(got.text), into); err != nil {
			o.t.Fatal(err)
		}
	}
	return got
}

// issued is a new key in an answer.
type issued struct {
	ID, Token string
	ExpiresAt time.Time `json:"expires_at"`
}

// issue creates a key and makes the node read it.
func (o *securedNode) issue(body string) (key issued) {
	o.t.Helper()
	o.done(o.root, "POST", "/v1/keys", body, &key)
	o.follow()
	return key
}

// sql runs a statement on the database.
func (o *securedNode) sql(query string, args ...any) {
	o.t.Helper()
	err := o.backends.db.Write(o.t.Context(), "test", func(t *engine.Tx) error {
		_, err := t.Exec(query, args...)
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
}
