package driver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

// pretend answers INFO with the fields given, CONFIG GET as a service that forbids it does, and OK to
// everything else. It returns its address.
func pretend(t *testing.T, fields string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	info := strings.ReplaceAll(fields, " ", "\r\n") + "\r\nrole:master\r\nmaster_replid:abc123\r\n"
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn, info)
		}
	}()
	return l.Addr().String()
}

// answer reads commands, which are arrays of bulk strings, and answers them.
func answer(conn net.Conn, info string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	number := func() int {
		line, err := in.ReadString('\n')
		if err != nil || len(line) < 4 {
			return -1
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		return n
	}
	for {
		parts := number()
		var words []string
		for range parts {
			text := make([]byte, number()+2)
			if _, err := io.ReadFull(in, text); err != nil {
				return
			}
			words = append(words, strings.ToUpper(string(text[:len(text)-2])))
		}
		switch {
		case len(words) == 0:
			return
		case words[0] == "INFO":
			fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
		case words[0] == "CONFIG" || words[0] == "HELLO":
			_, _ = io.WriteString(conn, "-ERR unknown command\r\n")
		default:
			_, _ = io.WriteString(conn, "+OK\r\n")
		}
	}
}

// TestStrangers checks that servers that cannot be the truth of a budget are refused by name and
// with what they lack, that Valkey counts as Redis, and that a service that forbids CONFIG GET is
// accepted if the operator vouches for it.
func TestStrangers(t *testing.T) {
	for _, test := range []struct {
		name, fields         string
		vouched              bool
		unfit, identity      string
		findings, persistent int
	}{
		{"Dragonfly", "redis_version:7.4.0 dragonfly_version:df-v1.27.1 run_id:r1", false, "Dragonfly", "", 0, 0},
		{"Kvrocks", "redis_version:7.0.0 kvrocks_version:2.11.1 run_id:r1", true, "Kvrocks", "", 0, 0},
		{"Garnet", "redis_version:7.4.3 garnet_version:1.0.60 run_id:r1", false, "Garnet", "", 0, 0},
		{"Valkey", "redis_version:7.2.4 server_name:valkey valkey_version:8.1.1 run_id:r1", true, "", "r1 abc123 master", 0, 1},
		{"a service", "redis_version:7.2.4 run_id:r1", false, "", "r1 abc123 master", 4, 0},
		{"a service without run id", "redis_version:7.2.4", false, "", "", 4, 0},
		{"the same, vouched for", "redis_version:7.2.4", true, "", "vouched abc123 master", 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, err := driver.New(driver.Config{Name: "r1", Addr: pretend(t, test.fields), Partitions: 1,
				InstallationID: "test", Vouched: test.vouched})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Disconnect() }()
			got, err := store.Condition(t.Context(), partition0)
			if err != nil || len(got.Findings) != test.findings || got.Persistent != (test.persistent == 1) ||
				(got.Unfit == "") != (test.unfit == "") || !strings.Contains(got.Unfit, test.unfit) {
				t.Errorf("condition %+v, %v", got, err)
			}
			identity, err := store.Identity(t.Context(), partition0)
			if identity != test.identity || (err == nil) != (test.identity != "") {
				t.Errorf("identity %q, %v", identity, err)
			}
			if test.unfit != "" && (!budget.Is(err, budget.Unavailable) || !strings.Contains(err.Error(), test.unfit)) {
				t.Errorf("not refused by name: %v", err)
			}
		})
	}
}
