// Package profile stores a person's servers and the keys for them in one file that only this person
// can read.
package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/budgetd/budgetd/internal/strictyaml"
	"go.yaml.in/yaml/v3"
)

// Profile says how to reach one server.
type Profile struct {
	Server string `yaml:"server"`
	// Token is the key. TokenFile is a file that holds it instead. A key is sent to Server only.
	Token     string `yaml:"token,omitempty"`
	TokenFile string `yaml:"token_file,omitempty"`
	Tenant    string `yaml:"tenant,omitempty"`
	// CAFile, CertFile, KeyFile and ServerName are for https.
	CAFile     string `yaml:"ca_file,omitempty"`
	CertFile   string `yaml:"cert_file,omitempty"`
	KeyFile    string `yaml:"key_file,omitempty"`
	ServerName string `yaml:"server_name,omitempty"`
}

// File holds all profiles of a person.
type File struct {
	// Current is the profile in use if none is named.
	Current  string             `yaml:"current"`
	Profiles map[string]Profile `yaml:"profiles"`
}

// Path returns the path of the file: budgetctl/profiles.yaml in XDG_CONFIG_HOME, else in ~/.config.
// Without a home it returns "".
func Path(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "budgetctl", "profiles.yaml")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "budgetctl", "profiles.yaml")
	}
	return ""
}

// Load reads a file. A missing file, or "", has no profiles. Load refuses a file that others than
// its owner may read or change, because it holds keys.
func Load(path string) (File, error) {
	file := File{Profiles: map[string]Profile{}}
	if path == "" {
		return file, nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err
	}
	if others := info.Mode().Perm() & 0o077; others != 0 {
		return file, fmt.Errorf("%s holds keys and has mode %04o: run `chmod 600 %s`", path,
			info.Mode().Perm(), path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return file, err
	}
	if _, err := strictyaml.Parse(text); err != nil {
		return File{}, fmt.Errorf("%s is not a file of profiles in YAML: %w", path, err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		// The library's message quotes the file, which holds keys.
		return File{}, fmt.Errorf("%s is not a file of profiles in YAML", path)
	}
	if file.Profiles == nil {
		file.Profiles = map[string]Profile{}
	}
	return file, nil
}

// Save replaces the file atomically, with mode 0600, and creates its folder with mode 0700.
func (f File) Save(path string) error {
	if path == "" {
		return errors.New("there is no home to keep profiles in: set HOME or XDG_CONFIG_HOME")
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, ".profiles-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // gone once it is renamed
	_, err = temporary.Write(text)
	if err := errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
