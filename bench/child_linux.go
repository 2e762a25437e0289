package main

import "syscall"

// childAttributes makes the kernel kill a child when this process ends for any reason.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
