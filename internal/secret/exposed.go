package secret

import (
	"fmt"
	"os"
)

// Exposed returns what is wrong with the mode of a file that holds a secret, and what to do: others
// than its owner may read it. It returns "" for any other file, and for one that it cannot look at.
func Exposed(file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o044 == 0 {
		return ""
	}
	return fmt.Sprintf("%s holds a secret and has mode %04o, so others than its owner can read it: "+
		"run `chmod 600 %s`", file, info.Mode().Perm(), file)
}
