package daemon_test

import (
	"net"
	"path/filepath"
	"testing"
)

// TestSystemdIsTold checks that systemd is told that budgetd is ready, that it runs, and that it
// stops.
func TestSystemdIsTold(t *testing.T) {
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", address.Name)
	t.Setenv("WATCHDOG_USEC", "90000")
	p := launch(t, nil)
	hears := func(want string) {
		t.Helper()
		message := make([]byte, 100)
		n, err := socket.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(message[:n]); got != want {
			t.Fatalf("systemd heard %q, want %q", got, want)
		}
	}
	hears("READY=1")
	if !listening.MatchString(p.log.String()) {
		t.Error("READY=1 was sent before budgetd listened")
	}
	hears("WATCHDOG=1")
	hears("WATCHDOG=1")
	p.signal()
	for message := make([]byte, 100); ; {
		n, err := socket.Read(message)
		if err != nil {
			t.Fatal(err)
		}
		if string(message[:n]) == "STOPPING=1" {
			break
		}
	}
	if status := p.ended(); status != 0 {
		t.Errorf("ended with %d", status)
	}
}
