//go:build !linux

package drill

import "syscall"

// apart keeps a terminal's Ctrl-C away from a server.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
