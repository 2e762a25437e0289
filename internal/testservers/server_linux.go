package testservers

import "syscall"

// serverAttributes puts a server into its own process group, out of reach of a terminal's
// Ctrl-C, and has the kernel kill it when the thread that started it ends.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
