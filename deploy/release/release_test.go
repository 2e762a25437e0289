package main

import (
	"archive/tar"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/goreleaser/fileglob"
	"gopkg.in/yaml.v3"
)

// made makes a release for linux/amd64 in a folder and returns the folder.
func made(t *testing.T, out string) string {
	t.Helper()
	r := release{root: "../..", out: out, targets: []string{"linux/amd64"}}
	if err := r.make(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRelease checks that two releases of a commit have the same bytes, that the checksums are right,
// that the package has a valid configuration and unit, and that the image serves.
func TestRelease(t *testing.T) {
	out := made(t, t.TempDir())
	sums := read(t, filepath.Join(out, "SHA256SUMS"))
	if again := read(t, filepath.Join(made(t, t.TempDir()), "SHA256SUMS")); again != sums {
		t.Errorf("a second release differs:\n%s\nand\n%s", sums, again)
	}
	run(t, out, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	var ends []string
	for line := range strings.Lines(sums) {
		if _, end, is := strings.Cut(strings.TrimSpace(line), "linux_amd64"); is {
			ends = append(ends, end)
		}
	}
	if want := []string{".cdx.json", ".deb", ".rpm", ".tar.gz", "_image.tar"}; !slices.Equal(ends, want) {
		t.Errorf("there are %q, want %q", ends, want)
	}
	t.Run("archive", func(t *testing.T) { testArchive(t, out) })
	t.Run("deb", func(t *testing.T) { testPackage(t, out) })
	t.Run("contents", func(t *testing.T) {
		list := read(t, one(t, out, "*_amd64.cdx.json"))
		for _, want := range []string{`"CycloneDX"`, "github.com/redis/go-redis/v9", `"SHA-256"`} {
			if !strings.Contains(list, want) {
				t.Errorf("the list of modules lacks %s", want)
			}
		}
	})
	t.Run("image", func(t *testing.T) { testImage(t, out) })
	t.Run("clients", func(t *testing.T) { testClients(t, out) })
	t.Run("upload", func(t *testing.T) { testUpload(t, out) })
}

// testUpload checks that goreleaser, which this test does not run, uploads exactly the files of a
// release: `make dist` is what it runs before, and its patterns find each file in dist and no other.
func testUpload(t *testing.T, out string) {
	var config struct {
		Dist   string
		Before struct{ Hooks []string }
		Builds []struct{ Skip bool }
		// Release has the patterns of the files to upload, relative to the repository.
		Release struct {
			ExtraFiles []struct{ Glob string } `yaml:"extra_files"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../.goreleaser.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.Before.Hooks, []string{"make dist"}) || config.Dist == "dist" ||
		len(config.Builds) != 1 || !config.Builds[0].Skip {
		t.Errorf("goreleaser runs %q, builds %v and has its own files in %q", config.Before.Hooks, config.Builds, config.Dist)
	}
	if text := read(t, "../../Makefile"); !strings.Contains(text, " -repository ../.. -out ../../dist\n") {
		t.Error("make dist does not write into dist")
	}
	repository := t.TempDir()
	if err := os.Symlink(out, filepath.Join(repository, "dist")); err != nil {
		t.Fatal(err)
	}
	var uploaded []string
	for _, file := range config.Release.ExtraFiles {
		found, err := fileglob.Glob(file.Glob, fileglob.WithFs(os.DirFS(repository)))
		if err != nil {
			t.Fatal(err)
		}
		uploaded = append(uploaded, found...)
	}
	files, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, f := range files {
		made = append(made, "dist/"+f.Name())
	}
	slices.Sort(uploaded)
	if len(made) < 6 || !slices.Equal(uploaded, made) {
		t.Errorf("goreleaser uploads %q, and there are %q", uploaded, made)
	}
}

func testArchive(t *testing.T, out string) {
	dir := t.TempDir()
	run(t, dir, "tar", "-xzf", one(t, out, "*_amd64.tar.gz"), "--strip-components=1")
	said := run(t, dir, "./budgetd", "--version")
	version := strings.TrimPrefix(strings.Fields(said)[1], "v")
	if name := filepath.Base(one(t, out, "*_amd64.tar.gz")); !strings.Contains(name, "_"+version+"_") {
		t.Errorf("%s says %s", name, said)
	}
	run(t, dir, "./budgetctl", "--help")
	checkLinks(t, dir)
}

// linked finds the files and folders to which a page links.
var linked = regexp.MustCompile(`\]\(([^)#:]+)[)#]`)

// checkLinks checks that everything is there to which the README.md in a folder links.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	for _, link := range linked.FindAllStringSubmatch(read(t, filepath.Join(dir, "README.md")), -1) {
		if _, err := os.Stat(filepath.Join(dir, link[1])); err != nil {
			t.Error(err)
		}
	}
}

func testPackage(t *testing.T, out string) {
	dir := t.TempDir()
	run(t, dir, "dpkg-deb", "-x", one(t, out, "*.deb"), dir)
	config := filepath.Join(dir, "etc/budgetd/budgetd.yaml")
	run(t, dir, filepath.Join(dir, "usr/bin/budgetd"), "--config", config, "--check-config")
	checkLinks(t, filepath.Join(dir, "usr/share/doc/budgetd"))
	read(t, filepath.Join(dir, "usr/share/doc/budgetd/docs/OPERATIONS.md")) // which the unit names
	for file, what := range map[string]string{"bash-completion/completions/budgetctl": "__start_budgetctl",
		"fish/vendor_completions.d/budgetctl.fish": "complete -c budgetctl", "zsh/vendor-completions/_budgetctl": "#compdef budgetctl"} {
		if text := read(t, filepath.Join(dir, "usr/share", file)); !strings.Contains(text, what) {
			t.Errorf("%s has no %q", file, what)
		}
	}
	unit := filepath.Join(dir, "usr/lib/systemd/system/budgetd.service")
	run(t, dir, "systemd-analyze", "security", "--offline=true", "--threshold=20", unit)
	here := strings.Replace(read(t, unit), "ExecStart=", "ExecStart="+dir, 1)
	if err := os.WriteFile(unit, []byte(here), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := run(t, dir, "systemd-analyze", "verify", unit); text != "" {
		t.Errorf("systemd-analyze verify says %s", text)
	}
}

var listening = regexp.MustCompile(`msg=listening addr=(\S+)`)

// testImage checks that the image's user is not root, and that its program serves from the image's
// files alone.
func testImage(t *testing.T, out string) {
	packed, root := t.TempDir(), t.TempDir()
	run(t, packed, "tar", "-xf", one(t, out, "*_image.tar"))
	index, err := layout.ImageIndexFromPath(packed)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatal(manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := file.Config; c.User != "65532:65532" || c.WorkingDir != "/var/lib/budgetd" ||
		!slices.Equal(c.Entrypoint, []string{"/usr/bin/budgetd"}) {
		t.Errorf("the image has user %q, folder %q and entry point %q", c.User, c.WorkingDir, c.Entrypoint)
	}
	checkSaved(t, one(t, out, "*_image.tar"), file)
	files := mutate.Extract(image)
	defer files.Close()
	unpack(t, files, root)
	var log lines
	server := exec.Command(filepath.Join(root, file.Config.Entrypoint[0]))
	server.Dir = filepath.Join(root, file.Config.WorkingDir)
	server.Env = []string{"BUDGETD_LISTEN=127.0.0.1:0"}
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }()
	answer, err := http.Get("http://" + log.wait(t, listening) + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/healthz answers %s", answer.Status)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// checkSaved checks that an image can also be read in the form of `docker save`: it has the same
// configuration and whole layers.
func checkSaved(t *testing.T, path string, want *v1.ConfigFile) {
	t.Helper()
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != want.Architecture ||
		!slices.Equal(config.Config.Entrypoint, want.Config.Entrypoint) ||
		!slices.Equal(config.RootFS.DiffIDs, want.RootFS.DiffIDs) {
		t.Errorf("as docker save: %+v, want %+v: %v", config, want, err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("as docker save: %v", err)
	}
}

func unpack(t *testing.T, files io.Reader, root string) {
	t.Helper()
	for pack := tar.NewReader(files); ; {
		header, err := pack.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(pack); err == nil {
				_ = os.MkdirAll(filepath.Dir(name), 0o755)
				err = os.WriteFile(name, content, os.FileMode(header.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReleaseRefuses checks that a release is refused in a folder that is not empty, and for a
// Dockerfile that needs a registry or another instruction.
func TestReleaseRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM debian\nRUN true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := release{root: "../..", out: dir, targets: []string{"linux/amd64"}}
	if err := r.make(); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a folder with a file: %v", err)
	}
	stage, err := lastStage(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.imageOf(build{}, stage); err == nil || !strings.Contains(err.Error(), "FROM debian") {
		t.Errorf("FROM debian: %v", err)
	}
	if err := os.WriteFile(file, []byte("FROM scratch\nRUN true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stage, err = lastStage(file); err != nil {
		t.Fatal(err)
	}
	if _, err := r.imageOf(build{}, stage); err == nil || !strings.Contains(err.Error(), "RUN") {
		t.Errorf("RUN: %v", err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// one returns the file in a folder that a pattern matches.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatal(pattern, found, err)
	}
	return found[0]
}

// run runs a program in a folder and returns what it prints.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait returns the first group of the first match in the log.
func (l *lines) wait(t *testing.T, want *regexp.Regexp) string {
	t.Helper()
	for range 1000 {
		if found := want.FindStringSubmatch(l.String()); found != nil {
			return found[1]
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the log has no %s:\n%s", want, l)
	return ""
}
