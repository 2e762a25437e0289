package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testClients checks that every package of a client has the version, the licence and no dependency,
// that its list names its checksum, and that it can be used from the package alone.
func testClients(t *testing.T, out string) {
	version := strings.TrimSuffix(filepath.Base(one(t, out, "budgetd-*.pom")), ".pom")
	version = strings.TrimPrefix(version, "budgetd-")
	pythons, err := pythonVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	license := read(t, "../../LICENSE")
	packages := []struct {
		kind, file, license string
		// about is the file with the version, and needs what would name a dependency there.
		about, version, needs string
	}{
		{"npm", "budgetd-" + version + ".tgz", "package/LICENSE", "package/package.json",
			`"version": "` + version + `"`, `"dependencies"`},
		{"python", "budgetd-" + pythons + "-py3-none-any.whl",
			"budgetd-" + pythons + ".dist-info/licenses/LICENSE",
			"budgetd-" + pythons + ".dist-info/METADATA", "\nVersion: " + pythons + "\n", "Requires-Dist"},
		{"python", "budgetd-" + pythons + ".tar.gz", "budgetd-" + pythons + "/LICENSE",
			"budgetd-" + pythons + "/PKG-INFO", "\nVersion: " + pythons + "\n", "Requires-Dist"},
		{"java", "budgetd-" + version + ".jar", "META-INF/LICENSE",
			"META-INF/maven/io.budgetd/budgetd/pom.xml", "<version>" + version + "</version>", "<dependenc"},
		{"java", "budgetd-" + version + "-sources.jar", "META-INF/LICENSE",
			"META-INF/maven/io.budgetd/budgetd/pom.xml", "<version>" + version + "</version>", "<dependenc"},
	}
	for _, p := range packages {
		t.Run(p.file, func(t *testing.T) {
			files := packed(t, filepath.Join(out, p.file))
			if files[p.license] != license {
				t.Errorf("%s is not the licence", p.license)
			}
			about := files[p.about]
			if !strings.Contains(about, p.version) || strings.Contains(about, p.needs) {
				t.Errorf("%s lacks %q or has %q:\n%s", p.about, p.version, p.needs, about)
			}
			sum, err := sumOf(filepath.Join(out, p.file))
			list := read(t, one(t, out, "*_"+p.kind+".cdx.json"))
			if err != nil || !strings.Contains(list, p.file) || !strings.Contains(list, sum) {
				t.Errorf("the list lacks the package or %s, %v:\n%s", sum, err, list)
			}
		})
	}
	t.Run("record", func(t *testing.T) { checkRecord(t, packed(t, filepath.Join(out, packages[1].file))) })
	t.Run("use", func(t *testing.T) { useClients(t, out) })
}

// checkRecord checks the RECORD of a wheel, which installers compare with its files.
func checkRecord(t *testing.T, files map[string]string) {
	t.Helper()
	var want []string
	record := ""
	for name, content := range files {
		if strings.HasSuffix(name, "/RECORD") {
			record = content
			want = append(want, name+",,")
			continue
		}
		sum := sha256.Sum256([]byte(content))
		want = append(want, fmt.Sprintf("%s,sha256=%s,%d", name,
			base64.RawURLEncoding.EncodeToString(sum[:]), len(content)))
	}
	got := strings.Split(strings.TrimSpace(record), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("RECORD has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// useClients uses each client from its package alone, in an empty folder: they make a request id.
func useClients(t *testing.T, out string) {
	dir := t.TempDir()
	modules := filepath.Join(dir, "node_modules/budgetd")
	if err := os.MkdirAll(modules, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "tar", "-xzf", one(t, out, "*.tgz"), "-C", modules, "--strip-components=1")
	run(t, dir, "node", "--input-type=module", "-e",
		"import {newRequestId} from 'budgetd'; import 'budgetd/fake'; if (!newRequestId()) process.exit(1)")
	typed := "import { Client, type components } from 'budgetd'\nimport { FakeServer } from 'budgetd/fake'\n" +
		"const fake = new FakeServer({ sale: 1 })\nconst c = new Client('http://x', { fetch: fake.fetch })\n" +
		"export const ask: components['schemas']['DeductRequest'] = { request_id: 'r', amount: 1 }\n" +
		"const answer = await c.deduct('sale', ask)\nexport const amount: number = answer.amount\n"
	if err := os.WriteFile(filepath.Join(dir, "use.mts"), []byte(typed), 0o600); err != nil {
		t.Fatal(err)
	}
	compiler, err := filepath.Abs("../../sdk/typescript/node_modules/typescript/bin/tsc")
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "node", compiler, "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022",
		"--lib", "es2022,esnext.disposable,dom,dom.iterable", "use.mts") // without skipLibCheck
	run(t, dir, "python3", "-c", "import sys; sys.path.insert(0, sys.argv[1]); "+
		"import budgetd, budgetd.aio; assert budgetd.__file__.startswith(sys.argv[1]); "+
		"assert budgetd.new_request_id()", one(t, out, "*.whl"))
	source := filepath.Join(dir, "Use.java")
	text := "class Use { public static void main(String[] a) { " +
		"if (io.budgetd.Client.newRequestId().isEmpty()) System.exit(1); } }"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "java", "-cp", one(t, out, "budgetd-*[^s].jar"), source)
}

// packed returns the files in a zip or tar.gz by their names.
func packed(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	keep := func(name string, r io.Reader) {
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(content)
	}
	if strings.HasSuffix(name, "gz") {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		unzipped, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		pack := tar.NewReader(unzipped)
		for {
			header, err := pack.Next()
			if err == io.EOF {
				return files
			}
			if err != nil {
				t.Fatal(err)
			}
			keep(header.Name, pack)
		}
	}
	pack, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	for _, f := range pack.File {
		if f.FileInfo().IsDir() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		keep(f.Name, r)
		r.Close()
	}
	return files
}

// TestModules checks that a package is built with the modules of its lock file and no others.
func TestModules(t *testing.T) {
	r := release{root: t.TempDir(), checkout: t.TempDir()}
	write := func(folder, name, text string) {
		t.Helper()
		path := filepath.Join(folder, "sdk", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const module = `"node_modules/a": {"version": "1.0.0", "integrity": "sha512-x"}`
	write(r.root, "package-lock.json", `{"packages": {"": {"name": "budgetd"}, `+module+`}}`)
	if err := r.modules("sdk"); err == nil || !strings.Contains(err.Error(), "test-deps.sh") {
		t.Errorf("nothing is installed: %v", err)
	}
	const installed = "node_modules/.package-lock.json"
	write(r.checkout, installed, `{"packages": {`+strings.Replace(module, "1.0.0", "1.0.1", 1)+`}}`)
	if err := r.modules("sdk"); err == nil || !strings.Contains(err.Error(), "test-deps.sh") {
		t.Errorf("another version is installed: %v", err)
	}
	write(r.checkout, installed, `{"packages": {`+module+`}}`)
	if err := r.modules("sdk"); err != nil {
		t.Error(err)
	}
	read(t, filepath.Join(r.root, "sdk", installed))
}

func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{
		"0.1.0":                               "0.1.0",
		"0.1.0-rc.1":                          "0.1.0rc1",
		"1.2.3-beta2":                         "1.2.3b2",
		"0.1.0-nightly":                       "",
		"0.0.0-20261129014500-0123456789ab":   "0.0.0.dev20261129014500+0123456789ab",
		"0.1.1-0.20261129014500-0123456789ab": "0.1.1.dev20261129014500+0123456789ab",
		"0.1.0-rc.1.0.20261129014500-0123456789ab": "0.1.0.dev20261129014500+0123456789ab",
	} {
		if got, err := pythonVersion(version); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", version, got, err, want)
		}
	}
}
