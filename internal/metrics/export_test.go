package metrics

import "github.com/prometheus/client_golang/prometheus"

// Registry returns the registry that Handler exports.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }
