package auditor

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Server is the address of a Redis server. Each command uses a new connection.
type Server string

// Hash returns the fields of a hash.
func (s Server) Hash(key string) (map[string]string, error) {
	list, err := s.ask("HGETALL", key)
	out := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		out[list[i]] = list[i+1]
	}
	return out, err
}

// Keys returns the keys that match a pattern.
func (s Server) Keys(pattern string) ([]string, error) { return s.ask("KEYS", pattern) }

// ask sends a command whose reply is a list of strings.
func (s Server) ask(args ...string) ([]string, error) {
	const limit = 10 * time.Second
	conn, err := net.DialTimeout("tcp", string(s), limit)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit)) // fails only if it is closed
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, request.String()); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	n, err := length(in, '*')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	out := make([]string, n)
	for i := range out {
		size, err := length(in, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		out[i] = string(text[:size])
	}
	return out, nil
}

// length reads a line that consists of a type and a number.
func length(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("answered by %q", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
