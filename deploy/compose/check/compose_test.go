// Package check tests deploy/compose with the library of Compose: compose.yaml must be valid, and its
// files must fit together. It is a separate module because the library needs many others. `make
// compose` runs it.
package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// project reads compose.yaml as `docker compose config` does, strictly.
func project(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithConsistency(true),
		cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var stores = []string{"redis-a", "redis-b", "redis-c"}

// TestCompose checks that all services exist, have a health check and are restarted, and that budgetd
// starts only when its database and stores are healthy.
func TestCompose(t *testing.T) {
	p := project(t)
	want := append([]string{"budgetd-a", "budgetd-b", "grafana", "mariadb", "prometheus"}, stores...)
	if got := p.ServiceNames(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	for name, s := range p.Services {
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 2 || s.Restart != "unless-stopped" {
			t.Errorf("%s has the health check %v and restarts %q", name, s.HealthCheck, s.Restart)
		}
		if keeps := len(s.Volumes) == 1; keeps == strings.HasPrefix(name, "budgetd") {
			t.Errorf("%s has %d volumes", name, len(s.Volumes))
		}
	}
	for _, name := range []string{"budgetd-a", "budgetd-b"} {
		s := p.Services[name]
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s has a writable root or capabilities", name)
		}
		for _, server := range append([]string{"mariadb"}, stores...) {
			if s.DependsOn[server].Condition != types.ServiceConditionHealthy {
				t.Errorf("%s does not wait until %s is healthy", name, server)
			}
		}
		if node := s.Environment["BUDGETD_NODE_NAME"]; node == nil || *node != name {
			t.Errorf("BUDGETD_NODE_NAME of %s is not its name", name)
		}
		_, token := s.Environment["BUDGETCTL_TOKEN_FILE"]
		first := slices.ContainsFunc(s.Secrets, func(c types.ServiceSecretConfig) bool { return c.Source == "first-key" })
		if token || first != (name == "budgetd-a") || !slices.Contains(s.HealthCheck.Test, "ready") {
			t.Errorf("%s has a key for its health check, or the first admin's key without need: %v", name, s.HealthCheck.Test)
		}
		file := filepath.Join(s.Build.Context, s.Build.Dockerfile)
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}

// TestImagesCanBePinned checks that a variable replaces each image that is not built here.
func TestImagesCanBePinned(t *testing.T) {
	pinned := "x.example/y@sha256:" + strings.Repeat("0a", 32)
	for _, name := range []string{"GOLANG_IMAGE", "REDIS_IMAGE", "MARIADB_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE"} {
		t.Setenv(name, pinned)
	}
	options, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithOsEnv, cli.WithConsistency(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range p.Services {
		image := s.Image
		if s.Build != nil {
			if arg := s.Build.Args["GOLANG_IMAGE"]; arg != nil {
				image = *arg
			}
		}
		if image != pinned {
			t.Errorf("%s has the image %s", name, image)
		}
	}
	if text := read(t, "../../Dockerfile"); !strings.Contains(text, "FROM ${GOLANG_IMAGE} AS build") {
		t.Error("the Dockerfile does not use GOLANG_IMAGE")
	}
}

var mounted = regexp.MustCompile(`/run/secrets/([a-z.-]+)`)

// TestSecrets checks that every file that a service names below /run/secrets is mounted there and
// made by secrets.sh, and that a service uses each file that it makes, except the authority's key.
func TestSecrets(t *testing.T) {
	p, dir := project(t), made(t)
	for _, c := range p.Configs {
		if _, err := os.Stat(c.File); err != nil {
			t.Error(err)
		}
	}
	used := map[string]bool{"ca.key": true}
	for name, s := range p.Services {
		has := map[string]bool{}
		for _, secret := range s.Secrets {
			used[secret.Source], has[secret.Source] = true, true
			if secret.Target != "" && secret.Target != "/run/secrets/"+secret.Source {
				t.Errorf("%s has %s at %s", name, secret.Source, secret.Target)
			}
			made := filepath.Join(dir, filepath.Base(p.Secrets[secret.Source].File))
			if info, err := os.Stat(made); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o644 {
				t.Errorf("%s of %s: %v, %v", secret.Source, name, info, err)
			}
		}
		text := strings.Join(append(slices.Clone(s.Command), s.HealthCheck.Test...), " ")
		for _, value := range s.Environment {
			text += " " + *value
		}
		for _, c := range s.Configs {
			text += read(t, p.Configs[c.Source].File)
		}
		for _, m := range mounted.FindAllStringSubmatch(text, -1) {
			if !has[m[1]] {
				t.Errorf("%s uses the secret %s, which is not mounted", name, m[1])
			}
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !used[f.Name()] {
			t.Errorf("secrets.sh makes %s, which no service uses", f.Name())
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestConfigurations checks that budgetd and Prometheus accept their configurations.
func TestConfigurations(t *testing.T) {
	dir := made(t)
	here := func(file string) string {
		text := strings.ReplaceAll(read(t, "../"+file), "/run/secrets", dir)
		rules, err := filepath.Abs("../../prometheus/alerts.yml")
		if err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, "/etc/prometheus/alerts.yml", rules)
		name := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	run(t, filepath.Join(programs(t), "budgetd"), "--check-config", "--config", here("budgetd.yaml"))
	run(t, "promtool", "check", "config", here("prometheus.yaml"))
}

// programs returns a folder with both programs.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "go", "-C", "../../..", "build", "-o", dir, "./cmd/budgetd", "./cmd/budgetctl")
	return dir
}

// made returns a folder with the secrets.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets")
	t.Setenv("BUDGETCTL", filepath.Join(programs(t), "budgetctl"))
	run(t, "../secrets.sh", dir)
	return dir
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
