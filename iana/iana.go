// Package iana has the time zones of the IANA database. They are embedded, so that all nodes of one
// version agree when a window or a period begins, whatever their machines have. It is the only
// package that reads zone data.
package iana

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

//go:generate go run fetch.go

// zipped is Go's lib/time/zoneinfo.zip.
//
//go:embed zones.zip
var zipped []byte

//go:embed release.txt
var release string

// Release returns the release of the IANA database that is embedded, such as "2025c".
func Release() string { return strings.TrimSpace(release) }

// ErrUnknown is in the error of a zone that is not in the database.
var ErrUnknown = errors.New("the IANA database has no such zone")

// files are the zones by name.
var files = sync.OnceValue(func() map[string]*zip.File {
	archive, err := zip.NewReader(bytes.NewReader(zipped), int64(len(zipped)))
	if err != nil {
		panic("iana: zones.zip: " + err.Error()) // it is part of the program
	}
	out := make(map[string]*zip.File, len(archive.File))
	for _, file := range archive.File {
		if name := file.Name; !strings.HasSuffix(name, "/") && name != "Factory" {
			out[name] = file
		}
	}
	return out
})

// known caches zones, because reading one costs more than using it. It has a few hundred at most.
var known sync.Map

// Zone returns the zone with a name, whose case counts; "" is UTC. A name that would depend on the
// machine, such as Local, localtime or right/UTC, is unknown. Error: ErrUnknown. It is safe for
// concurrent use.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if zone, ok := known.Load(name); ok {
		return zone.(*time.Location), nil
	}
	file, ok := files()[name]
	if !ok {
		return nil, fmt.Errorf("%q: %w", name, ErrUnknown)
	}
	zone, err := read(name, file)
	if err == nil {
		known.Store(name, zone)
	}
	return zone, err
}

func read(name string, file *zip.File) (*time.Location, error) {
	body, err := file.Open()
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w", name, err)
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w", name, err)
	}
	return time.LoadLocationFromTZData(name, data)
}
