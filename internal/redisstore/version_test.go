package redisstore

import "testing"

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{"6.2.0": true, "6.2": true, "7.0.15": true,
		"10.0": true, "6.0.16": false, "6.1.99": false, "5.0": false, "7": true, "6": false, "": false, "x": false} {
		if got := atLeast(version, oldestVersion); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}
