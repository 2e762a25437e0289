//go:build !linux

package chaos

import "syscall"

// attributes sets no parent-death signal, which does not exist here; a killed test leaves its
// processes behind.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
