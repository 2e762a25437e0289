// Package check tests the chart: it renders the chart with the library of Helm and decodes the result
// into the types of Kubernetes. It is a separate module because both are large. `make charts` runs it.
package check

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write deploy/kubernetes/budgetd.yaml")

// kinds returns the types of the chart's objects. They are decoded strictly, so an unknown field is
// an error, except in a ServiceMonitor, whose type does not belong to Kubernetes.
var kinds = map[string]func() any{
	"ConfigMap":           func() any { return new(corev1.ConfigMap) },
	"Deployment":          func() any { return new(appsv1.Deployment) },
	"NetworkPolicy":       func() any { return new(networkingv1.NetworkPolicy) },
	"PodDisruptionBudget": func() any { return new(policyv1.PodDisruptionBudget) },
	"Service":             func() any { return new(corev1.Service) },
	"ServiceMonitor":      func() any { return new(map[string]any) },
}

// render renders the chart as `helm template` does. The error is that of the schema or of a template.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load("../budgetd")
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "budgetd",
		Namespace: "default", Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range files {
		if base := filepath.Base(name); strings.HasSuffix(base, ".yaml") && strings.TrimSpace(text) != "" {
			out[base] = text
		}
	}
	return out, nil
}

// objects decodes all rendered objects strictly, by the name of the template.
func objects(t *testing.T, files map[string]string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for name, text := range files {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if kinds[head.Kind] == nil {
			t.Fatalf("%s: kind %q", name, head.Kind)
		}
		object := kinds[head.Kind]()
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		out[name] = object
	}
	return out
}

// TestChart checks the objects that the chart makes by default, and that deploy/kubernetes has them.
func TestChart(t *testing.T) {
	files, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, files)
	if len(all) != 6 || all["servicemonitor.yaml"] != nil {
		t.Errorf("there are %d objects", len(all))
	}
	pod := all["deployment.yaml"].(*appsv1.Deployment).Spec.Template.Spec
	c := pod.Containers[0]
	for what, ok := range map[string]bool{
		"no service links":     pod.EnableServiceLinks != nil && !*pod.EnableServiceLinks,
		"not root":             *pod.SecurityContext.RunAsNonRoot,
		"read-only root":       *c.SecurityContext.ReadOnlyRootFilesystem,
		"GOMEMLIMIT of 512 Mi": c.Env[0].Name == "GOMEMLIMIT" && c.Env[0].Value == "460MiB",
		"three probes": c.StartupProbe.HTTPGet.Path == "/readyz" &&
			c.ReadinessProbe.HTTPGet.Path == "/readyz" && c.LivenessProbe.HTTPGet.Path == "/healthz",
		"grace":      *pod.TerminationGracePeriodSeconds == 40,
		"two nodes":  *all["deployment.yaml"].(*appsv1.Deployment).Spec.Replicas == 2,
		"spread":     len(pod.TopologySpreadConstraints) == 2,
		"disruption": all["poddisruptionbudget.yaml"].(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable.IntVal == 1,
	} {
		if !ok {
			t.Errorf("it lacks: %s", what)
		}
	}
	service := all["service.yaml"].(*corev1.Service).Spec
	metrics := all["metrics.yaml"].(*corev1.Service)
	if len(service.Ports) != 1 || len(metrics.Spec.Ports) != 1 || metrics.Spec.Type != "" {
		t.Errorf("ports %v of the service, %+v of the metrics", service.Ports, metrics.Spec)
	}
	checkConfig(t, all["configmap.yaml"].(*corev1.ConfigMap).Data["budgetd.yaml"])
	var text strings.Builder
	for _, name := range []string{"configmap.yaml", "deployment.yaml", "service.yaml",
		"metrics.yaml", "poddisruptionbudget.yaml", "networkpolicy.yaml"} {
		text.WriteString("---\n" + strings.TrimSpace(files[name]) + "\n")
	}
	const rendered = "../../kubernetes/budgetd.yaml"
	if *update {
		if err := os.WriteFile(rendered, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if known, err := os.ReadFile(rendered); err != nil || string(known) != text.String() {
		t.Errorf("%s is not what the chart renders: go test -run TestChart -update", rendered)
	}
}

// checkConfig checks a configuration with budgetd --check-config.
func checkConfig(t *testing.T, config string) {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []struct{ name, text string }{
		{"dsn", "budgetd:x@tcp(mariadb:3306)/budgetd"}, {"first-admin", ""}, {"budgetd.yaml",
			strings.ReplaceAll(config, "/etc/budgetd/secrets", dir)}} {
		if err := os.WriteFile(filepath.Join(dir, file.name), []byte(file.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("go", "run", "./cmd/budgetd", "--check-config", "--config",
		filepath.Join(dir, "budgetd.yaml"))
	command.Dir = "../../.."
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("budgetd --check-config: %v\n%s", err, out)
	}
}

// TestChartValues checks that values have their effect, and that invalid ones are refused by name.
func TestChartValues(t *testing.T) {
	files, err := render(t, "tlsSecretName: cert\nserviceMonitor: {enabled: true, tlsConfig: {ca: {secret: "+
		"{name: ours, key: ca.crt}}}}\nnetworkPolicy: "+
		"{enabled: false}\nresources: {limits: {memory: 2Gi}}\nconfig: {stop: {notice: 25s}}\n")
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, files)
	pod := all["deployment.yaml"].(*appsv1.Deployment).Spec.Template.Spec
	config := all["configmap.yaml"].(*corev1.ConfigMap).Data["budgetd.yaml"]
	if c := pod.Containers[0]; c.Env[0].Value != "1843MiB" || *pod.TerminationGracePeriodSeconds != 55 ||
		c.ReadinessProbe.HTTPGet.Scheme != "HTTPS" || all["networkpolicy.yaml"] != nil ||
		!strings.Contains(config, "cert_file: /etc/budgetd/tls/tls.crt") || all["servicemonitor.yaml"] == nil {
		t.Errorf("the values have no effect:\n%v", files)
	}
	// Without the token the metrics answer 401.
	for _, want := range []string{"app.kubernetes.io/component: metrics",
		"credentials: {name: budgetd-metrics, key: token}", "serverName: budgetd", "key: ca.crt"} {
		if !strings.Contains(files["servicemonitor.yaml"], want) {
			t.Errorf("no %q in:\n%s", want, files["servicemonitor.yaml"])
		}
	}
	files, err = render(t, "config: {instances: []}")
	if err != nil || !strings.Contains(files["configmap.yaml"], "instances: []") {
		t.Errorf("without instances: %v\n%s", err, files["configmap.yaml"])
	}
	for values, want := range map[string]string{
		"replica: 3":                           "replica",
		"replicas: 0":                          "replicas",
		"secretName: ''":                       "secretName",
		"resources: {limits: {memory: 512}}":   "memory",
		"config: {auth: loopback}":             "auth",
		"config: {stop: {notice: 0s}}":         "notice",
		"config: {database: {driver: sqlite}}": "driver",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that names %s", values, err, want)
		}
	}
}

// TestImage checks that a digest takes the place of the tag.
func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for values, want := range map[string]string{
		"image: {repository: r.example/budgetd, tag: v1}":                           "r.example/budgetd:v1",
		"image: {repository: r.example/budgetd, tag: v1, digest: '" + digest + "'}": "r.example/budgetd@" + digest,
	} {
		files, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		pod := objects(t, files)["deployment.yaml"].(*appsv1.Deployment).Spec.Template.Spec
		if got := pod.Containers[0].Image; got != want {
			t.Errorf("%s: %s, want %s", values, got, want)
		}
	}
	if _, err := render(t, "image: {repository: budgetd, digest: v1}"); err == nil {
		t.Error("a tag is accepted as a digest")
	}
}
