package contract

import (
	"fmt"
	"net/url"
	"strings"
)

// shown is an example as the pages show it.
type shown struct{ Title, Request, Answer string }

// examplesOf returns the examples of a call: what is sent, and the answer that is called like it.
func examplesOf(c call) (all []shown) {
	for _, answer := range c.Responses {
		for _, content := range answer.Value.Content {
			for _, e := range content.Value.Examples {
				one := shown{Title: "Example " + e.Name + ":", Request: c.Method + " " + c.target(e.Name),
					Answer: answer.Name + "\n" + pretty(e.Value.Value)}
				for _, sent := range c.RequestBody.Content {
					for _, body := range sent.Value.Examples {
						if body.Name != e.Name {
							continue
						}
						one.Request += "\n" + pretty(body.Value.Value)
						if body.Value.Summary != "" {
							one.Title = "Example " + e.Name + ": " + body.Value.Summary
						}
					}
				}
				all = append(all, one)
			}
		}
	}
	return all
}

// target is the path and the query of an example: each parameter with its example of that name, or
// with the one called usual; a required one with its only example.
func (c *call) target(name string) string {
	path, query := c.Path, url.Values{}
	for _, p := range c.Parameters {
		value, given := p.valueOf(name)
		switch {
		case !given:
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", fmt.Sprint(value))
		case p.In == "query":
			if members, ok := value.(map[string]any); ok { // style form, exploded
				for member, text := range members {
					query.Set(member, fmt.Sprint(text))
				}
				continue
			}
			list, several := value.([]any)
			if !several {
				list = []any{value}
			}
			for _, one := range list {
				query.Add(p.Name, fmt.Sprint(one))
			}
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func (p *parameter) valueOf(name string) (value any, given bool) {
	for _, name := range []string{name, "usual"} {
		for _, e := range p.Examples {
			if e.Name == name {
				err := e.Value.Value.Decode(&value)
				return value, err == nil
			}
		}
	}
	return p.Example, p.Required && p.Example != nil
}
