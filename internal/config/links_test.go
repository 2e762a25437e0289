package config

import (
	"errors"
	"strings"
	"testing"
)

// TestServiceLinks checks that the variables that Kubernetes sets for a Service named budgetd are
// ignored, and that a mistyped key remains an error.
func TestServiceLinks(t *testing.T) {
	_, err := Load("", []string{"BUDGETD_PORT=tcp://10.0.0.9:8080", "BUDGETD_SERVICE_HOST=10.0.0.9",
		"BUDGETD_SERVICE_PORT=8080", "BUDGETD_SERVICE_PORT_HTTP=8080", "BUDGETD_PORT_8080_TCP=tcp://10.0.0.9:8080",
		"BUDGETD_PORT_8080_TCP_ADDR=10.0.0.9", "BUDGETD_PORT_8080_TCP_PROTO=tcp", "BUDGETD_PORT_8080_TCP_PORT=8080",
		"BUDGETD_ADMIN_SERVICE_HOST=10.0.0.9", "BUDGETD_ADMIN_PORT_9000_TCP_ADDR=fd00::1"})
	if err != nil {
		t.Error(err)
	}
	for _, variable := range []string{"BUDGETD_LISTN=127.0.0.1:1", "BUDGETD_PORT=eight", "BUDGETD_SERVICE_HOST=x y"} {
		var faults Faults
		if _, err := Load("", []string{variable}); !errors.As(err, &faults) ||
			!strings.Contains(err.Error(), "is not a key of budgetd") {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

func TestSockets(t *testing.T) {
	const redis = `instances: [{name: a, driver: redis, addrs: [`
	c := mustLoad(t, redis+`"unix:///run/redis.sock"]}]`)
	if c.Instances[0].Addrs[0] != "unix:///run/redis.sock" {
		t.Error(c.Instances[0].Addrs)
	}
	for _, wrong := range []string{`"unix://run/redis.sock"]}]`, `"unix:///a"], topology: cluster}]`,
		`"unix:///a"], tls: {enabled: true}}]`} {
		if _, err := Load(write(t, "config", redis+wrong), nil); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
