package testservers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Command sends one command on a connection of its own and returns the reply as text: a simple
// string, a number or a bulk string ("" for a null reply). It returns an error for an error reply,
// for an array, and after 30 s without an answer.
func (r *RedisServer) Command(args ...string) (string, error) {
	return askServer(r.Server, args...)
}

// askServer is Command for any server, including a sentinel.
func askServer(s *Server, args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), stopLimit)
	if err != nil {
		return "", fmt.Errorf("testservers: redis: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(stopLimit)); err != nil {
		return "", err
	}
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, request.String()); err != nil {
		return "", fmt.Errorf("testservers: redis: %s: %w", args[0], err)
	}
	reply, err := readReply(bufio.NewReader(conn))
	if err != nil {
		return "", fmt.Errorf("testservers: redis: %s: %w", strings.Join(args, " "), err)
	}
	return reply, nil
}

// readReply reads one RESP2 reply that is not an array.
func readReply(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("an empty reply")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", errors.New(rest)
	case '$':
		size, err := strconv.Atoi(rest)
		if err != nil || size < 0 {
			return "", err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return "", err
		}
		return string(text[:size]), nil
	}
	return "", fmt.Errorf("a reply that begins with %q", line[0])
}
