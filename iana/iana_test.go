package iana_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/budgetd/budgetd/iana"
)

// TestMachineDecidesNothing checks that zone data of the machine is not used, so that two nodes
// agree when a window begins.
func TestMachineDecidesNothing(t *testing.T) {
	folder := t.TempDir()
	utc, err := os.ReadFile(filepath.Join("testdata", "berlin-is-utc"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "Europe"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "Europe", "Berlin"), utc, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZONEINFO", folder)
	zone, err := iana.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if _, offset := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).In(zone).Zone(); offset != 2*3600 {
		t.Errorf("in summer Europe/Berlin is %d s from UTC", offset)
	}
}

// TestZones checks which names are zones: those of the database, in their case.
func TestZones(t *testing.T) {
	for _, name := range []string{"", "UTC", "Etc/UTC", "Europe/Berlin", "America/New_York",
		"Australia/Lord_Howe", "Asia/Kolkata", "EST5EDT"} {
		if zone, err := iana.Zone(name); err != nil || name != "" && zone.String() != name {
			t.Errorf("%q: %v, %v", name, zone, err)
		}
	}
	for _, name := range []string{"Local", "localtime", "posixrules", "right/UTC", "posix/UTC",
		"../etc/passwd", "/etc/localtime", "Europe", "Europe/", "europe/berlin", "Europe/Berlin ",
		"Factory", "Mars/Phobos", ".", "\x00"} {
		if zone, err := iana.Zone(name); !errors.Is(err, iana.ErrUnknown) {
			t.Errorf("%q: %v, %v", name, zone, err)
		}
	}
}

// TestRelease checks that the release is one.
func TestRelease(t *testing.T) {
	if r := iana.Release(); !regexp.MustCompile(`^20\d\d[a-z]$`).MatchString(r) {
		t.Errorf("release %q", r)
	}
}
