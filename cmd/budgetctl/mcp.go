package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/budgetd/budgetd/internal/secret"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

const mcpHelp = `Serves the tools check, hold, confirm, release, explain, carve and close to an
agent, in the Model Context Protocol: over stdin and stdout, or with --http over HTTP on this
machine. The agent does what the key of budgetctl may do, and never more than these tools: none
creates a key, raises a total, or gives back what was confirmed. Give it a key of its own: of the
role deduct, with the budgets that it may spend, or of the role delegate, with the budget that it
may also divide.

Over HTTP the agent sends "Authorization: Bearer TOKEN" with the token in --http-token-file, which
need not be a key of budgetd. The path is /mcp.`

func (a *app) mcpCommand() *cobra.Command {
	var address, tokenFile string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve deductions to an agent (Model Context Protocol)",
		Long:  mcpHelp,
		Example: `  budgetctl mcp --server https://budgetd.internal:8080 --token-file /etc/agent/key
  budgetctl mcp --http 127.0.0.1:8090 --http-token-file /etc/agent/http-token`,
		Args: arguments,
	}
	cmd.Flags().StringVar(&address, "http", "",
		"loopback address to serve HTTP on, such as 127.0.0.1:8090 (default: stdin and stdout)")
	cmd.Flags().StringVar(&tokenFile, "http-token-file", "",
		"file with the token that callers over HTTP must send")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if (address == "") != (tokenFile == "") {
			return usagef("--http and --http-token-file go together")
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		server := newTools(a, c).server()
		if address != "" {
			return a.serveTools(cmd.Context(), server, address, tokenFile)
		}
		err = server.Run(cmd.Context(), &mcp.StdioTransport{})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	return cmd
}

// version returns the version of this program, "(devel)" if it has none.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// serveTools serves over HTTP until the context ends. Every process on this machine can reach it,
// so callers need the token.
func (a *app) serveTools(ctx context.Context, server *mcp.Server, address, tokenFile string) error {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return usagef("--http-token-file: %v", err)
	}
	if why := secret.Exposed(tokenFile); why != "" {
		fmt.Fprintln(a.stderr, "warning:", printable(why))
	}
	want := strings.TrimSpace(string(token))
	if len(want) < leastToken {
		return usagef("--http-token-file: the token must have at least %d characters", leastToken)
	}
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return usagef("--http %q: must be a loopback address with a port, such as 127.0.0.1:8090, "+
			"because the token travels unencrypted", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	// Without sessions a client notices nothing of a restart.
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: 1 << 20})
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(withToken(want, tools)))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	stopped := context.AfterFunc(ctx, func() {
		// Calls that are on their way get their answer.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
		_ = h.Shutdown(end)
	})
	defer stopped()
	fmt.Fprintf(a.stderr, "serving on http://%s/mcp\n", listener.Addr())
	if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// leastToken is the fewest characters of a token of callers: fewer can be guessed.
const leastToken = 16

// withToken answers 401 to requests without the token. Comparing hashes takes the same time for
// every token.
func withToken(want string, next http.Handler) http.Handler {
	sum := sha256.Sum256([]byte("Bearer " + want))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], sum[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token of --http-token-file is missing", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
