package config

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/internal/secret"
)

// prefix begins the environment variables that are read.
const prefix = "BUDGETD_"

// others reports whether a variable with that prefix belongs to budgetctl or to tests.
func others(name string) bool {
	return name == prefix+"SERVER" || strings.HasPrefix(name, prefix+"TEST_")
}

// The names of variables that Kubernetes sets in every container for a Service whose name begins
// with budgetd.
var (
	linkOfHost = regexp.MustCompile(
		`^BUDGETD_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?)$`,
	)
	linkOfPort = regexp.MustCompile(
		`^BUDGETD_([A-Z0-9_]+_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)
	linkValue = regexp.MustCompile(`^((tcp|udp|sctp)://.+|tcp|udp|sctp|[0-9]+|[0-9a-fA-F:.]+)$`)
)

// isServiceLink reports whether the name and the value of a variable have the form of a Kubernetes
// Service variable.
func isServiceLink(name, value string) bool {
	return (linkOfHost.MatchString(name) || linkOfPort.MatchString(name)) &&
		linkValue.MatchString(value)
}

// Load reads the configuration: defaults, then the file ("" for none), then the environment, in the
// form of os.Environ. Its error is Faults with every fault, or says why the file cannot be read.
func Load(file string, environ []string) (Config, error) {
	l := loader{environment: map[string]string{}}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, prefix) &&
			!others(name) && !isServiceLink(name, value) {
			l.environment[name] = value
		}
	}
	if err := l.defaults(); err != nil {
		return Config{}, err
	}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return Config{}, fmt.Errorf("the configuration cannot be read: %w", err)
		}
		if err := l.merge(text); err != nil {
			return Config{}, fmt.Errorf("the configuration %s cannot be read: %w", file, err)
		}
	}
	var c Config
	l.apply("", c.settings(), l.viper.Get)
	c.Instances = l.instances()
	l.strangers()
	if len(l.faults) == 0 {
		l.faults = append(l.faults, c.readSecrets()...)
	}
	if len(l.faults) == 0 {
		l.faults = append(l.faults, c.checkWhole(l.defaultDSN)...)
	}
	for n := range c.Instances {
		c.Instances[n].complete()
	}
	if len(l.faults) > 0 {
		return Config{}, Faults(l.faults)
	}
	return c, nil
}

// loader merges the sources.
type loader struct {
	viper       *viper.Viper
	codec       yamlCodec
	environment map[string]string // the variables that were not used yet
	defaultDSN  string
	// instance holds the defaults of an instance.
	instance map[string]any
	faults   []Fault
}

func (l *loader) fault(key string, value any, want string) {
	l.faults = append(l.faults, Fault{key, show(value), want})
}

// defaults reads the embedded config.yaml.
func (l *loader) defaults() error {
	registry := viper.NewCodecRegistry()
	if err := registry.RegisterCodec("yaml", &l.codec); err != nil {
		return err
	}
	l.viper = viper.NewWithOptions(viper.WithCodecRegistry(registry))
	l.viper.SetConfigType("yaml")
	if err := l.viper.ReadConfig(bytes.NewReader(budgetd.Config)); err != nil {
		return fmt.Errorf("the embedded config.yaml cannot be read: %w", err)
	}
	l.defaultDSN = l.viper.GetString("database.dsn")
	var example struct{ Instances []map[string]any }
	if err := yaml.Unmarshal(withInstance(budgetd.Config), &example); err != nil {
		return fmt.Errorf("the instance in the embedded config.yaml cannot be read: %w", err)
	}
	l.instance = flatten(example.Instances[0])
	delete(l.instance, "name")
	return nil
}

// withInstance returns config.yaml with the instance that it has as a comment. The other keys of an
// instance have the values of that one.
func withInstance(file []byte) []byte {
	before, rest, _ := strings.Cut(string(file), "\ninstances: []\n")
	comment, after, _ := strings.Cut(rest, "\n\n")
	return []byte(before + "\ninstances:\n" + strings.ReplaceAll("\n"+comment, "\n#", "\n") +
		"\n\n" + after)
}

// merge lays a file over the defaults and adds a fault for every unknown key.
func (l *loader) merge(file []byte) error {
	l.codec.keys = nil
	if err := l.viper.MergeConfig(bytes.NewReader(file)); err != nil {
		return err
	}
	for _, odd := range l.codec.odd {
		l.fault(odd, nil, "is not a key of budgetd: keys are written in small letters")
	}
	known := []string{"instances"}
	for _, s := range new(Config).settings() {
		known = append(known, s.key)
	}
	for _, key := range l.codec.keys {
		// A key below a key with a value, or with capitals, has a fault already.
		has := func(name string) bool { return key.name == name || strings.HasPrefix(key.name, name+".") }
		if !slices.ContainsFunc(known, has) && key.name == strings.ToLower(key.name) {
			l.unknown(known, key)
		}
	}
	return nil
}

// unknown records an unknown key.
func (l *loader) unknown(known []string, k key) {
	section, _, _ := strings.Cut(k.name, ".")
	var below []string
	for _, name := range known {
		if rest, inside := strings.CutPrefix(name, section+"."); inside {
			below = append(below, rest)
		}
	}
	switch {
	// A section whose keys are all commented out is allowed.
	case k.name == section && len(below) > 0 && k.value == nil:
	case k.name == section && len(below) > 0:
		l.fault(k.name, k.value, "must be a section with "+strings.Join(below, ", "))
	case len(below) > 0:
		l.fault(k.name, nil, "is not a key of budgetd; "+section+" has "+strings.Join(below, ", "))
	default:
		l.fault(k.name, nil, "is not a key of budgetd; see config.yaml for all of them")
	}
}

// apply gives every setting its value: the environment's, or else the one that get returns.
func (l *loader) apply(within string, settings []setting, get func(string) any) {
	for _, s := range settings {
		key, value := s.key, get(s.key)
		if within != "" {
			key = within + "." + key
		}
		variable := variableOf(s.key)
		if within != "" {
			name, _ := get("name").(string)
			variable = variableOf("instances." + name + "." + s.key)
		}
		if _, list := s.target.(*[]string); !list {
			if text, set := l.environment[variable]; set {
				delete(l.environment, variable)
				key, value = variable, text
			}
		}
		if s.set(value) {
			continue
		}
		if s.secret && value != nil {
			l.faults = append(l.faults, Fault{key, "(not shown)", s.want})
		} else {
			l.fault(key, value, s.want)
		}
	}
}

// variableOf returns the environment variable of a key.
func variableOf(key string) string {
	return prefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// renamed has the keys of an instance that have another name now.
var renamed = map[string]string{"lanes": "partitions"}

func instanceKey(n int) string { return fmt.Sprintf("instances[%d]", n) }

// instances reads the list of instances.
func (l *loader) instances() []Instance {
	value := l.viper.Get("instances")
	elements, ok := value.([]any)
	if !ok {
		l.fault("instances", value, "must be a list of instances")
	}
	out := make([]Instance, len(elements))
	for n, element := range elements {
		key := instanceKey(n)
		section, ok := element.(map[string]any)
		if !ok {
			l.fault(key, element, "must be a section with name, addrs and more")
			continue
		}
		settings, given := out[n].settings(), flatten(section)
		for name, value := range given {
			known := slices.ContainsFunc(settings, func(s setting) bool { return s.key == name })
			switch now, was := renamed[name]; {
			case was:
				l.fault(key+"."+name, nil, "was renamed to "+now)
			case !known && !(name == "tls" && value == nil):
				l.fault(key+"."+name, nil, "is not a key of an instance")
			}
		}
		l.apply(key, settings, func(name string) any {
			if value, has := given[name]; has {
				return value
			}
			return l.instance[name]
		})
	}
	return out
}

// strangers adds a fault for every environment variable that sets nothing.
func (l *loader) strangers() {
	for variable := range l.environment {
		want := "is not a key of budgetd; see config.yaml for how keys are written here"
		for was, now := range renamed {
			of, ends := strings.CutSuffix(variable, strings.TrimPrefix(variableOf("."+was), prefix))
			if ends && strings.HasPrefix(of, variableOf("instances.")) {
				want = "was renamed to " + of + strings.TrimPrefix(variableOf("."+now), prefix)
			}
		}
		l.fault(variable, nil, want)
	}
	slices.SortStableFunc(l.faults, func(a, b Fault) int { return strings.Compare(a.Key, b.Key) })
}

// readSecrets reads the files that hold secrets.
func (c *Config) readSecrets() []Fault {
	var faults []Fault
	read := func(key, file string, into *secret.Text) {
		if file == "" {
			return
		}
		text, err := os.ReadFile(file)
		*into = secret.New(strings.TrimRight(string(text), "\r\n"))
		if err != nil || into.Empty() {
			faults = append(faults,
				Fault{key, show(file), "must be a file that can be read and is not empty"})
		}
	}
	read("database.dsn_file", c.Database.DSNFile, &c.Database.DSN)
	if !c.OIDC.ClientSecret.Empty() && c.OIDC.ClientSecretFile != "" {
		faults = append(faults, Fault{"oidc.client_secret_file", show(c.OIDC.ClientSecretFile),
			"must not be set beside oidc.client_secret"})
	} else {
		read("oidc.client_secret_file", c.OIDC.ClientSecretFile, &c.OIDC.ClientSecret)
	}
	for n := range c.Instances {
		i := &c.Instances[n]
		for _, p := range []struct {
			key, file string
			into      *secret.Text
		}{{"password", i.PasswordFile, &i.Password}, {"sentinel_password", i.SentinelPasswordFile,
			&i.SentinelPassword}} {
			key := instanceKey(n) + "." + p.key + "_file"
			if !p.into.Empty() && p.file != "" {
				faults = append(faults, Fault{key, show(p.file), "must not be set beside " + p.key})
				continue
			}
			read(key, p.file, p.into)
		}
	}
	return faults
}
