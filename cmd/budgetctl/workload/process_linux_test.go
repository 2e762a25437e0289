package workload

import (
	"bufio"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestChildrenCount checks that the usage of a process includes that of its children once it has
// waited for them. A shell waits for a child that counts, prints the usage of both with times(1p),
// and stays alive until its usage has been read.
func TestChildrenCount(t *testing.T) {
	const script = `(i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done); times; read line`
	shell := exec.Command("sh", "-c", script)
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = shell.Wait() // at the end of its input read fails, and so the shell
	}()
	lines := bufio.NewReader(out)
	own, children := readTimes(t, lines), readTimes(t, lines)
	u, err := ReadUsage(shell.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	// Each of four figures is cut to a step; the shell may have used a little since it said them.
	const near = 40 * time.Millisecond
	if children < 2*near {
		t.Fatalf("the child used only %v, which is too little to compare", children)
	}
	if off := u.CPU - own - children; off.Abs() > near {
		t.Errorf("ReadUsage: %v; the shell: %v and %v for its child", u.CPU, own, children)
	}
}

// readTimes reads a line of times: user and system time, such as "0m0.52s 0m0.01s".
func readTimes(t *testing.T, lines *bufio.Reader) (sum time.Duration) {
	t.Helper()
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(line)
	if len(fields) != 2 {
		t.Fatalf("times says %q", line)
	}
	for _, field := range fields {
		d, err := time.ParseDuration(field)
		if err != nil {
			t.Fatal(err)
		}
		sum += d
	}
	return sum
}
