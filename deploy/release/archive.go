package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the formats that packages creates
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// documents lists the files in the top folder of an archive, besides the programs. pages are those
// below, to which README.md links.
var (
	documents = []string{"LICENSE", "README.md", "README.zh-CN.md", "CHANGELOG.md",
		"CONTRIBUTING.md", "config.yaml", "openapi.yaml", "schema.sql", "examples/cluster.yaml",
		"deploy/systemd/budgetd.service"}
	pages = []string{"docs/*.md", "docs/*/*.md", "examples/README.md", "sdk/README.md",
		"deploy/compose/compose.yaml"}
)

// archive packs the programs of a build and the documents into a .tar.gz.
func (r *release) archive(b build) error {
	return create(r.name(b, ".tar.gz"), func(w io.Writer) error {
		zip := gzip.NewWriter(w)
		pack := tar.NewWriter(zip)
		top := strings.TrimSuffix(filepath.Base(r.name(b, "")), ".tar.gz") + "/"
		for _, p := range programs {
			if err := r.add(pack, filepath.Join(b.dir, p), top+p, 0o755); err != nil {
				return err
			}
		}
		for _, d := range documents {
			if err := r.add(pack, filepath.Join(r.root, d), top+path.Base(d), 0o644); err != nil {
				return err
			}
		}
		for _, pattern := range pages {
			found, err := fs.Glob(os.DirFS(r.root), pattern)
			for _, page := range found {
				err = errors.Join(err, r.add(pack, filepath.Join(r.root, page), top+page, 0o644))
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(pack.Close(), zip.Close())
	})
}

// add adds a file to an archive, owned by root, with the time of the commit.
func (r *release) add(pack *tar.Writer, file, name string, mode int64) error {
	content, err := os.ReadFile(file)
	if err == nil {
		err = pack.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode,
			Size: int64(len(content)), ModTime: r.date, Format: tar.FormatUSTAR})
	}
	if err == nil {
		_, err = pack.Write(content)
	}
	return err
}

// packages creates the deb and the rpm of a build for Linux.
func (r *release) packages(b build) error {
	if !b.isLinux() {
		return nil
	}
	values := map[string]string{"ARCH": b.arch, "VERSION": r.version, "BIN": b.dir, "ROOT": r.root,
		"COMPLETION": r.completion}
	text, err := os.ReadFile(filepath.Join(r.root, "deploy/packages/nfpm.yaml"))
	if err != nil {
		return err
	}
	config, err := nfpm.Parse(strings.NewReader(os.Expand(string(text),
		func(name string) string { return values[name] })))
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		info, err := config.Get(format)
		if err != nil {
			return err
		}
		info = nfpm.WithDefaults(info)
		info.MTime = r.date
		for _, c := range info.Contents {
			c.FileInfo.MTime = r.date
		}
		packager, err := nfpm.Get(format)
		if err == nil {
			err = create(r.name(b, "."+format), func(w io.Writer) error {
				return packager.Package(info, w)
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// create creates a file and writes it.
func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}
