package main

import "syscall"

// childAttributes has the kernel kill a child when this process ends, however it does.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
