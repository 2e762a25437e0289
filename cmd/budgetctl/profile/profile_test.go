package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "budgetctl", "profiles.yaml")
	empty, err := Load(path)
	if err != nil || len(empty.Profiles) != 0 {
		t.Fatalf("%+v, %v", empty, err)
	}
	want := File{Current: "live", Profiles: map[string]Profile{
		"live": {Server: "https://budgets:443", Token: "bdg_x", Tenant: "shop", CAFile: "/ca"},
		"test": {Server: "http://127.0.0.1:8080", TokenFile: "/run/key"}}}
	for range 2 {
		if err := want.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(path)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%d files, %v", len(left), err)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profiles.yaml")
	for _, test := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"current: a", 0o640, "chmod 600"}, {"current: a", 0o602, "chmod 600"},
		{"token: marker", 0o600, "not a file of profiles"}, {"profiles: {a: {token: [marker", 0o600, "not a file of profiles"},
		{"current: a\n---\ncurrent: marker", 0o600, "one YAML document"},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "marker") {
			t.Errorf("%q, %04o: %v", test.text, test.mode, err)
		}
	}
}

func TestPath(t *testing.T) {
	for _, test := range []struct{ xdg, home, want string }{
		{"", "", ""}, {"", "/home/a", "/home/a/.config/budgetctl/profiles.yaml"},
		{"/c", "/home/a", "/c/budgetctl/profiles.yaml"}, {"relative", "", ""},
	} {
		got := Path(func(name string) string {
			return map[string]string{"XDG_CONFIG_HOME": test.xdg, "HOME": test.home}[name]
		})
		if got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if err := (File{}).Save(""); err == nil {
		t.Error("kept nowhere")
	}
}
