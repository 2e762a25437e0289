//go:build !linux

package testservers

import "syscall"

// serverAttributes puts a server into its own process group, so that a terminal's Ctrl-C does not
// reach it. Without a parent-death signal, the servers of a killed process keep running.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// hasRoom returns false: no directory is known to be in memory.
func hasRoom(string) bool { return false }
