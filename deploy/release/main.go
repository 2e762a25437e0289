// Release builds everything that is published for a version of budgetd from the commit that is
// checked out: archives with static programs, deb and rpm packages, images, packages of the
// clients, lists of what they contain, and checksums. `make dist` runs it. The same commit gives
// the same bytes wherever it is built with the same versions of Go, Node, Python and the JDK.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	var r release
	flag.StringVar(&r.root, "repository", "../..", "repository whose checked-out commit is released")
	flag.StringVar(&r.out, "out", "dist", "new or empty folder for what is made")
	targets := flag.String("targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64",
		"systems to build for, as GOOS/GOARCH, separated by commas")
	flag.Parse()
	r.targets = strings.Split(*targets, ",")
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version of budgetd. root is a repository, out a new or empty folder, targets are
// GOOS/GOARCH.
type release struct {
	root, out string
	targets   []string

	// checkout is the repository that root is a clone of.
	checkout string
	// version is that of the module without the v, as the programs print it. date is the date of
	// the commit.
	version string
	date    time.Time
	builds  []build
	// completion is the folder with the scripts for the completion of shells.
	completion string
}

// build holds the programs for one system, in the folder dir.
type build struct{ system, arch, dir string }

func (b build) isLinux() bool { return b.system == "linux" }

var programs = []string{"budgetd", "budgetctl"}

// make builds everything. After an error, out holds a part of it.
func (r *release) make() error {
	if left, err := os.ReadDir(r.out); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is not empty: remove it, or name another folder with -out", r.out)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "budgetd-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := r.checkOut(filepath.Join(work, "source")); err != nil {
		return err
	}
	for i, target := range r.targets {
		fmt.Fprintf(os.Stderr, "build %d of %d: %v\n", i+1, len(r.targets), target)
		if err := r.build(work, target); err != nil {
			return err
		}
	}
	if err := r.complete(filepath.Join(work, "completion")); err != nil {
		return err
	}
	for i, b := range r.builds {
		fmt.Fprintf(os.Stderr, "package %d of %d: %s/%s\n", i+1, len(r.builds), b.system, b.arch)
		err := errors.Join(r.archive(b), r.packages(b), r.contents(b), r.image(b, work))
		if err != nil {
			return fmt.Errorf("%s/%s: %w", b.system, b.arch, err)
		}
	}
	fmt.Fprintln(os.Stderr, "package the clients")
	if err := r.clients(work); err != nil {
		return err
	}
	return r.checksums()
}

// checkOut clones the commit, so that nothing else is released, and makes the clone the root.
func (r *release) checkOut(source string) error {
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	// The clone has the tags, from which Go derives the version.
	clone := exec.Command("git", "clone", "--quiet", "file://"+root, source)
	if out, err := clone.CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w\n%s", err, out)
	}
	r.root, r.checkout = source, root
	text, err := exec.Command("git", "-C", r.root, "log", "-1", "--format=%cI").Output()
	if err != nil {
		return fmt.Errorf("git log: %w", err)
	}
	r.date, err = time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	r.date = r.date.UTC()
	return err
}

// build builds the programs for a target below work.
func (r *release) build(work, target string) error {
	system, arch, _ := strings.Cut(target, "/")
	b := build{system, arch, filepath.Join(work, system+"_"+arch)}
	args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.dir + "/"}
	for _, p := range programs {
		args = append(args, "./cmd/"+p)
	}
	command := exec.Command("go", args...)
	command.Dir = r.root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+system,
		"GOARCH="+arch)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s: %w\n%s", target, err, out)
	}
	info, err := buildinfo.ReadFile(filepath.Join(b.dir, programs[0]))
	if err != nil {
		return err
	}
	version := strings.TrimPrefix(info.Main.Version, "v")
	if version == "" || version == "(devel)" {
		return errors.New("the programs have no version: is -buildvcs possible here?")
	}
	r.version = cmp.Or(r.version, version)
	r.builds = append(r.builds, b)
	return nil
}

// complete writes the scripts for completion to a folder. They are the same for every system, and
// come from a budgetctl for this machine, which is built if no target is this machine.
func (r *release) complete(folder string) error {
	r.completion = folder
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	program := []string{"go", "run", "-trimpath", "-ldflags=-s -w", "./cmd/budgetctl"}
	for _, b := range r.builds {
		if b.system == runtime.GOOS && b.arch == runtime.GOARCH {
			program = []string{filepath.Join(b.dir, "budgetctl")}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		command := exec.Command(program[0], append(program[1:], "completion", shell)...)
		command.Dir = r.root
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		text, err := command.Output()
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, shell), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
	}
	return nil
}

// name returns the path in out of a file of a build.
func (r *release) name(b build, end string) string {
	return filepath.Join(r.out, fmt.Sprintf("budgetd_%s_%s_%s%s", r.version, b.system, b.arch, end))
}

// checksums writes SHA256SUMS, in the form that sha256sum -c reads.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum+"  "+e.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
