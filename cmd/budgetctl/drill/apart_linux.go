package drill

import "syscall"

// apart keeps a terminal's Ctrl-C away from a server, and has the kernel kill it if this program is
// killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
