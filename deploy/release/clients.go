package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// clients builds the packages of the clients in other languages, each with its licence and a list
// of what it contains. They need npm, Python and a JDK; the same versions of those give the same
// bytes.
func (r *release) clients(work string) error {
	return errors.Join(r.typescript(), r.python(), r.java(filepath.Join(work, "java")))
}

func (r *release) typescript() error {
	dir := filepath.Join(r.root, "sdk/typescript")
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	if err := setVersion(filepath.Join(dir, "package.json"), `"version": "0.0.0"`,
		`"version": "`+r.version+`"`); err != nil {
		return err
	}
	if err := copyFile(filepath.Join(r.root, "LICENSE"), filepath.Join(dir, "LICENSE")); err != nil {
		return err
	}
	if err := r.modules("sdk/typescript"); err != nil {
		return err
	}
	for _, args := range [][]string{{"run", "build"},
		{"pack", "--ignore-scripts", "--pack-destination", out}} {
		if err := tool(dir, nil, "npm", args...); err != nil {
			return err
		}
	}
	return r.clientContents("npm", "pkg:npm/budgetd@"+r.version, "budgetd-"+r.version+".tgz")
}

// modules gives a folder of the clone the modules of the checkout. They must be exactly those of
// the lock file, as after scripts/test-deps.sh, so that nothing else decides what is built.
func (r *release) modules(folder string) error {
	dir := filepath.Join(r.root, folder)
	installed := filepath.Join(r.checkout, folder, "node_modules")
	have, err := lockOf(filepath.Join(installed, ".package-lock.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	locked, err := lockOf(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(have, locked) {
		return fmt.Errorf("%s is not what %s/package-lock.json says: scripts/test-deps.sh installs it",
			installed, folder)
	}
	return os.Symlink(installed, filepath.Join(dir, "node_modules"))
}

// lockOf returns what a lock file of npm says about each module.
func lockOf(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lock struct{ Packages map[string]any }
	err = json.Unmarshal(text, &lock)
	delete(lock.Packages, "") // the package itself
	return lock.Packages, err
}

func (r *release) python() error {
	dir := filepath.Join(r.root, "sdk/python")
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	version, err := pythonVersion(r.version)
	if err != nil {
		return err
	}
	if err := setVersion(filepath.Join(dir, "pyproject.toml"), `version = "0.0.0"`,
		`version = "`+version+`"`); err != nil {
		return err
	}
	const build = "import sys; sys.path.insert(0, 'packaging'); import backend; " +
		"backend.build_wheel(sys.argv[1]); backend.build_sdist(sys.argv[1])"
	variables := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()),
		"PYTHONDONTWRITEBYTECODE=1"}
	if err := tool(dir, variables, "python3", "-c", build, out); err != nil {
		return err
	}
	return r.clientContents("python", "pkg:pypi/budgetd@"+version,
		"budgetd-"+version+"-py3-none-any.whl", "budgetd-"+version+".tar.gz")
}

// pseudo matches the version of a commit without a tag.
var pseudo = regexp.MustCompile(`^(\d+\.\d+\.\d+)-(?:0\.|.*\.0\.)?(\d{14})-([0-9a-f]{12})$`)

// released matches the version of a tag.
var released = regexp.MustCompile(`^(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?$`)

// pythonVersion returns a version in the form of PEP 440. A commit without a tag is a development
// version, which sorts before the release as it does in Go.
func pythonVersion(version string) (string, error) {
	if p := pseudo.FindStringSubmatch(version); p != nil {
		return p[1] + ".dev" + p[2] + "+" + p[3], nil
	}
	p := released.FindStringSubmatch(version)
	if p == nil {
		return "", fmt.Errorf("version %s has no form for Python: use X.Y.Z or X.Y.Z-rc.N", version)
	}
	short := map[string]string{"": "", "alpha": "a", "beta": "b", "rc": "rc"}
	return p[1] + short[p[2]] + p[3], nil
}

// java builds the jar and the jar of the sources below work.
func (r *release) java(work string) error {
	dir := filepath.Join(r.root, "sdk/java")
	pom := filepath.Join(dir, "pom.xml")
	const unset = "<version>0.0.0</version> <!-- make dist writes the version of the release -->"
	err := setVersion(pom, unset, "<version>"+r.version+"</version>")
	if err != nil {
		return err
	}
	classes := filepath.Join(work, "classes")
	sources, err := filesIn(filepath.Join(dir, "src/main/java"))
	if err != nil {
		return err
	}
	args := []string{"--release", "17", "-encoding", "UTF-8", "-d", classes}
	for _, s := range sources {
		args = append(args, "src/main/java/"+s)
	}
	if err := tool(dir, nil, "javac", args...); err != nil {
		return err
	}
	manifest := filepath.Join(work, "manifest")
	text := "Automatic-Module-Name: io.budgetd\nImplementation-Version: " + r.version + "\n"
	if err := os.WriteFile(manifest, []byte(text), 0o644); err != nil {
		return err
	}
	name := "budgetd-" + r.version
	for end, folder := range map[string]string{".jar": classes,
		"-sources.jar": filepath.Join(dir, "src/main/java")} {
		if err := r.jar(name+end, manifest, folder); err != nil {
			return err
		}
	}
	if err := copyFile(pom, filepath.Join(r.out, name+".pom")); err != nil {
		return err
	}
	return r.clientContents("java", "pkg:maven/io.budgetd/budgetd@"+r.version, name+".jar",
		name+"-sources.jar", name+".pom")
}

// jar packs the files of a folder, with the licence and the POM, in the order of their names.
func (r *release) jar(name, manifest, folder string) error {
	extra := filepath.Join(folder, "META-INF")
	maven := filepath.Join(extra, "maven/io.budgetd/budgetd")
	if err := os.MkdirAll(maven, 0o755); err != nil {
		return err
	}
	for from, to := range map[string]string{"LICENSE": filepath.Join(extra, "LICENSE"),
		"sdk/java/pom.xml": filepath.Join(maven, "pom.xml")} {
		if err := copyFile(filepath.Join(r.root, from), to); err != nil {
			return err
		}
	}
	files, err := filesIn(folder)
	if err != nil {
		return err
	}
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	args := append([]string{"--create", "--file", filepath.Join(out, name), "--manifest", manifest,
		"--date", r.date.Format(time.RFC3339)}, files...)
	return tool(folder, nil, "jar", args...)
}

// clientContents writes a CycloneDX list for a client, with the checksums of its packages. A client
// has no other components: a test checks that no package names a dependency.
func (r *release) clientContents(kind, url string, packages ...string) error {
	bom := cdx.NewBOM()
	component := &cdx.Component{Type: cdx.ComponentTypeLibrary, Name: "budgetd", BOMRef: url,
		Version: r.version, PackageURL: url,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}
	var files []cdx.Component
	for _, p := range packages {
		sum, err := sumOf(filepath.Join(r.out, p))
		if err != nil {
			return err
		}
		files = append(files, cdx.Component{Type: cdx.ComponentTypeFile, Name: p, BOMRef: p,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}})
	}
	component.Components = &files
	bom.Metadata = &cdx.Metadata{Timestamp: r.date.Format(time.RFC3339), Component: component}
	bom.Components = &[]cdx.Component{}
	bom.Dependencies = &[]cdx.Dependency{{Ref: url}}
	file := filepath.Join(r.out, "budgetd-"+r.version+"_"+kind+".cdx.json")
	return create(file, func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// setVersion replaces a text that a file must have exactly once.
func setVersion(file, old, new string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.Count(string(text), old) != 1 {
		return fmt.Errorf("%s must have %s once", file, old)
	}
	return os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o644)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// filesIn returns the files below a folder, in the order of their names.
func filesIn(folder string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files = append(files, name)
		}
		return err
	})
	return files, err
}

// tool runs a program in a folder, with variables beside those of this program.
func tool(dir string, variables []string, name string, args ...string) error {
	command := exec.Command(name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), variables...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w (scripts/test-deps.sh installs what it needs)\n%s", name, args[0],
			err, out)
	}
	return nil
}
