//go:build ignore

// Command fetch copies the zones of the Go installation that runs it, with their release.
package main

import (
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		log.Fatal(err)
	}
	from := filepath.Join(strings.TrimSpace(string(root)), "lib", "time")
	zones, err := os.ReadFile(filepath.Join(from, "zoneinfo.zip"))
	if err != nil {
		log.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(from, "update.bash"))
	if err != nil {
		log.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^DATA=(\S+)$`).FindSubmatch(script)
	if release == nil {
		log.Fatal("update.bash names no release")
	}
	if err := os.WriteFile("zones.zip", zones, 0o644); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("release.txt", append(release[1], '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}
