package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// contents writes a CycloneDX list of the modules in the programs of a build, from Go's build
// information.
func (r *release) contents(b build) error {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.date.Format(time.RFC3339),
		Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: "budgetd",
			BOMRef: "budgetd", Version: r.version}}
	components := []cdx.Component{}
	listed := map[string]bool{}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(b.dir, p))
		if err != nil {
			return err
		}
		golang := &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range append(info.Deps, golang) {
			if m.Replace != nil && strings.HasPrefix(m.Replace.Path, ".") || listed[m.Path] {
				continue // a module of this repository
			}
			listed[m.Path] = true
			components = append(components, component(m))
		}
	}
	bom.Components = &components
	return create(r.name(b, ".cdx.json"), func(w io.Writer) error {
		encoder := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
		return encoder.SetPretty(true).Encode(bom)
	})
}

func component(m *debug.Module) cdx.Component {
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
		PackageURL: "pkg:golang/" + m.Path + "@" + m.Version}
	c.BOMRef = c.PackageURL
	if sum, is := strings.CutPrefix(m.Sum, "h1:"); is {
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
	}
	return c
}
