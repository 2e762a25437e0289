//go:build !linux

package main

import "syscall"

// childAttributes keeps a terminal's signals from a child.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
