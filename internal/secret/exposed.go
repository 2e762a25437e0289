package secret

import (
	"fmt"
	"os"
	"strings"
)

// mounted is where containers get their secrets. Only the container sees these files, and what
// mounts them decides about their modes.
const mounted = "/run/secrets/"

// Exposed returns what is wrong with the mode of a file that holds a secret, and what to do: others
// than its owner may read it. It returns "" for any other file, for one that it cannot look at, and
// for one that is mounted into a container.
func Exposed(file string) string {
	if strings.HasPrefix(file, mounted) {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o044 == 0 {
		return ""
	}
	return fmt.Sprintf("%s holds a secret and has mode %04o, so others than its owner can read it: "+
		"run `chmod 600 %s`", file, info.Mode().Perm(), file)
}
