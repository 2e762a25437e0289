package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// image creates the image of a build for Linux by the last stage of deploy/Dockerfile, and writes
// it as a tar. The tar is an OCI layout. It also has the manifest.json of `docker save`, because a
// Docker that does not keep images in containerd loads nothing else. Each architecture has a file
// of its own, because podman and skopeo load no file with several images.
func (r *release) image(b build, work string) error {
	if !b.isLinux() {
		return nil
	}
	stage, err := lastStage(filepath.Join(r.root, "deploy/Dockerfile"))
	if err != nil {
		return err
	}
	image, err := r.imageOf(b, stage)
	if err != nil {
		return err
	}
	name := "budgetd:" + r.version
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: b.system, Architecture: b.arch},
			Annotations: map[string]string{
				"io.containerd.image.name":          "docker.io/library/" + name,
				"org.opencontainers.image.ref.name": name}}})
	dir := filepath.Join(work, "image_"+b.arch)
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	if err := dockerManifest(image, name, filepath.Join(dir, "manifest.json")); err != nil {
		return err
	}
	return create(r.name(b, "_image.tar"), func(w io.Writer) error { return r.packTree(w, dir) })
}

// dockerManifest writes the list of images in the form of `docker save`, with the blobs of the OCI
// layout.
func dockerManifest(image v1.Image, name, file string) error {
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	blob := func(d v1.Descriptor) string { return "blobs/" + d.Digest.Algorithm + "/" + d.Digest.Hex }
	var layers []string
	for _, l := range manifest.Layers {
		layers = append(layers, blob(l))
	}
	text, err := json.Marshal(tarball.Manifest{{Config: blob(manifest.Config),
		RepoTags: []string{name}, Layers: layers}})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// lastStage parses the last stage of a Dockerfile.
func lastStage(file string) (*instructions.Stage, error) {
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	parsed, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, err
	}
	return &stages[len(stages)-1], nil
}

// imageOf creates the image of one build. It supports the instructions that deploy/Dockerfile uses,
// and returns an error for any other.
func (r *release) imageOf(b build, stage *instructions.Stage) (v1.Image, error) {
	if stage.BaseName != "scratch" {
		return nil, fmt.Errorf("the last stage is FROM %s: only scratch needs no registry",
			stage.BaseName)
	}
	config := v1.Config{ExposedPorts: map[string]struct{}{}, Labels: map[string]string{
		"org.opencontainers.image.version": r.version}}
	var layer bytes.Buffer
	pack := tar.NewWriter(&layer)
	for _, command := range stage.Commands {
		if err := r.follow(b, command, &config, pack); err != nil {
			return nil, err
		}
	}
	if err := pack.Close(); err != nil {
		return nil, err
	}
	content, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: r.date}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{OS: b.system, Architecture: b.arch,
		Created: created, Config: config, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: content,
		History: v1.History{Created: created, CreatedBy: "deploy/Dockerfile"}})
}

// follow carries out one instruction.
func (r *release) follow(b build, command instructions.Command, config *v1.Config,
	pack *tar.Writer) error {
	switch c := command.(type) {
	case *instructions.CopyCommand:
		return r.copy(b, c, pack)
	case *instructions.UserCommand:
		config.User = c.User
	case *instructions.WorkdirCommand:
		config.WorkingDir = c.Path
	case *instructions.ExposeCommand:
		for _, port := range c.Ports {
			config.ExposedPorts[port+"/tcp"] = struct{}{}
		}
	case *instructions.StopSignalCommand:
		config.StopSignal = c.Signal
	case *instructions.EntrypointCommand:
		config.Entrypoint = c.CmdLine
	case *instructions.CmdCommand:
		config.Cmd = c.CmdLine
	default:
		return fmt.Errorf("%s is an instruction that this program does not know", command.Name())
	}
	return nil
}

// copy carries out a COPY from the build: a program by its name, or the empty folder "state".
func (r *release) copy(b build, c *instructions.CopyCommand, pack *tar.Writer) error {
	if c.From == "" || len(c.SourcePaths) != 1 {
		return errors.New("COPY: wants --from=build and one source")
	}
	name := path.Base(c.SourcePaths[0])
	target := strings.TrimPrefix(c.DestPath, "/")
	if name != "state" {
		return r.add(pack, filepath.Join(b.dir, name), target, 0o755)
	}
	owner, group, _ := strings.Cut(c.Chown, ":")
	uid, err := strconv.Atoi(owner)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(group)
	if err != nil {
		return err
	}
	return pack.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: target + "/", Mode: 0o700,
		Uid: uid, Gid: gid, ModTime: r.date, Format: tar.FormatUSTAR})
}

// packTree writes the files of a folder as a tar, sorted by name.
func (r *release) packTree(w io.Writer, dir string) error {
	pack := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(file string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		return r.add(pack, file, filepath.ToSlash(name), 0o644)
	})
	return errors.Join(err, pack.Close())
}
