//go:build !linux

package chaos

import "syscall"

// attributes: there is no parent-death signal here; a killed test leaves its processes behind.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
