package testservers

import "syscall"

// serverAttributes puts a server into its own process group, so that a terminal's Ctrl-C does not
// reach it, and makes the kernel kill it when the thread that started it ends.
func serverAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// hasRoom reports whether a directory is in memory and has enough free space for tests.
func hasRoom(dir string) bool {
	const tmpfs = 0x01021994
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Type == tmpfs && s.Bavail > room/uint64(s.Bsize)
}
