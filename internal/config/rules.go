package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/internal/secret"
)

// setting is one key.
type setting struct {
	key string
	rule
}

// rule says which values a key accepts and where they go.
type rule struct {
	// want completes the sentence "KEY: VALUE …".
	want string
	// bounds is the range as config.yaml must state it, or "".
	bounds string
	// secret means that the value is never shown.
	secret bool
	// target is the variable that set sets.
	target any
	// set accepts a value of the file (string, int, bool, []any …) or of the environment (string).
	// It returns false if the value is not valid.
	set func(value any) bool
}

// hidden accepts a text that is never shown.
func hidden(into *secret.Text) rule {
	var plain string
	r := text(&plain)
	set := r.set
	r.secret, r.target = true, into
	r.set = func(value any) bool {
		ok := set(value)
		*into = secret.New(plain)
		return ok
	}
	return r
}

func text(into *string) rule {
	const want = "must be a text (in quotes, if it looks like a number)"
	return rule{want: want, target: into, set: func(value any) bool {
		text, ok := value.(string)
		*into = text
		return ok
	}}
}

// collector accepts the URL of an OpenTelemetry collector, or "".
func collector(into *string) rule {
	const want = "must be http://host:port or https://host:port, with or without a path, or empty"
	return rule{want: want, target: into, set: func(value any) bool {
		text, ok := value.(string)
		*into = text
		at, err := url.Parse(text)
		return ok && (text == "" || err == nil && at.Host != "" && at.RawQuery == "" &&
			(at.Scheme == "http" || at.Scheme == "https"))
	}}
}

func nonEmpty(r rule) rule {
	set := r.set
	r.want = "must be a text that is not empty"
	r.set = func(value any) bool { return set(value) && value != "" }
	return r
}

func choice(into *string, choices ...string) rule {
	return rule{want: "must be " + either(choices), target: into, set: func(value any) bool {
		text, ok := value.(string)
		*into = text
		for _, c := range choices {
			if ok && text == c {
				return true
			}
		}
		return false
	}}
}

func either(choices []string) string {
	last := len(choices) - 1
	if last == 0 {
		return choices[0]
	}
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// oneOf accepts two words and stores whether the value is the first.
func oneOf(into *bool, yes, no string) rule {
	var word string
	r := choice(&word, no, yes)
	set := r.set
	r.target = into
	r.set = func(value any) bool {
		ok := set(value)
		*into = word == yes
		return ok
	}
	return r
}

func level(into *slog.Level) rule {
	var word string
	r := choice(&word, "debug", "info", "warn", "error")
	set := r.set
	r.target = into
	r.set = func(value any) bool { return set(value) && into.UnmarshalText([]byte(word)) == nil }
	return r
}

func flag(into *bool) rule {
	return rule{want: "must be true or false", target: into, set: func(value any) bool {
		switch value := value.(type) {
		case bool:
			*into = value
			return true
		case string:
			*into = value == "true"
			return value == "true" || value == "false"
		}
		return false
	}}
}

func integer(into *int, least, most int) rule {
	bounds := fmt.Sprintf("%d to %d", least, most)
	want := "must be an integer of " + bounds
	return rule{want: want, bounds: bounds, target: into, set: func(value any) bool {
		switch value := value.(type) {
		case int:
			*into = value
		case string:
			number, err := strconv.Atoi(value)
			if err != nil || strconv.Itoa(number) != value {
				return false
			}
			*into = number
		default:
			return false
		}
		return *into >= least && *into <= most
	}}
}

func duration(into *time.Duration, least, most string) rule {
	bounds := least + " to " + most
	from, err := time.ParseDuration(least)
	if err != nil {
		panic(err)
	}
	to, err := time.ParseDuration(most)
	if err != nil {
		panic(err)
	}
	want := fmt.Sprintf("must be a duration of %s, such as 2s", bounds)
	return rule{want: want, bounds: bounds, target: into, set: func(value any) bool {
		text, ok := value.(string)
		length, err := time.ParseDuration(text)
		*into = length
		return ok && err == nil && length >= from && length <= to
	}}
}

const wantAddress = "must be host:port with a port of 0 to 65535, such as 127.0.0.1:8080"

func address(into *string) rule {
	return rule{want: wantAddress, target: into, set: func(value any) bool {
		text, ok := value.(string)
		*into = text
		return ok && isAddress(text)
	}}
}

func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " /@") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isSocket reports whether a text is the path of a Unix socket.
func isSocket(text string) bool {
	path, ok := strings.CutPrefix(text, "unix://")
	return ok && strings.HasPrefix(path, "/")
}

func addresses(into *[]string) rule {
	const want = "must be a list of host:port or unix:///path, such as [127.0.0.1:6379]"
	return rule{want: want, target: into, set: func(value any) bool {
		list, ok := value.([]any)
		*into = nil
		for _, element := range list {
			text, isText := element.(string)
			if !isText || !isSocket(text) && (!isAddress(text) || strings.HasPrefix(text, ":")) {
				return false
			}
			*into = append(*into, text)
		}
		return ok
	}}
}

// networks accepts a list of networks in CIDR form.
func networks(into *[]netip.Prefix) rule {
	const want = "must be a list of networks, such as [10.0.0.0/8, 'fd00::/8']"
	return rule{want: want, target: into, set: func(value any) bool {
		list, ok := value.([]any)
		*into = nil
		for _, element := range list {
			text, _ := element.(string)
			network, err := netip.ParsePrefix(text)
			if err != nil || network != network.Masked() {
				return false
			}
			*into = append(*into, network)
		}
		return ok
	}}
}
