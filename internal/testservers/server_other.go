//go:build !linux

package testservers

import "syscall"

// serverAttributes puts a server into its own process group, out of reach of a terminal's
// Ctrl-C. There is no parent-death signal here: a killed process leaves its servers behind.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// hasRoom reports that no directory is known to be in memory.
func hasRoom(string) bool { return false }
