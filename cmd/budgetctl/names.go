package main

import (
	"context"
	"strings"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// completionTime bounds how long a shell waits for names.
const completionTime = 2 * time.Second

// completeBudgets completes the names of budgets. It offers nothing if the server does not answer.
func (a *app) completeBudgets(_ *cobra.Command, _ []string, typed string) ([]string,
	cobra.ShellCompDirective) {
	c, err := a.client(client.WithRetry(client.Retry{Attempts: 1}))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var names []string
	for b, err := range c.Budgets(ctx, client.Filter{PageSize: 1000}) {
		if err != nil {
			break
		}
		if strings.HasPrefix(b.Name, typed) {
			names = append(names, b.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFirst completes the first argument of a command if it is a budget.
func (a *app) completeFirst(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.completeFirst(sub)
	}
	if words := strings.Fields(cmd.Use); len(words) < 2 || words[1] != "BUDGET" {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeBudgets(cmd, args, typed)
	}
}

// names returns the names in a JSON answer, one per line: its own, or those of the elements of its
// list.
func names(text []byte) (string, error) {
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", err
	}
	if name := nameOf(answer); name != "" {
		return name, nil
	}
	var lines []string
	for _, member := range answer {
		list, _ := member.([]any)
		for _, element := range list {
			if object, is := element.(map[string]any); is && nameOf(object) != "" {
				lines = append(lines, nameOf(object))
			}
		}
	}
	return strings.Join(lines, "\n"), nil
}

// nameOf returns the name of an object, or "".
func nameOf(object map[string]any) string {
	for _, member := range []string{"name", "key", "request_id", "id"} {
		if name, is := object[member].(string); is && name != "" {
			return printable(name)
		}
	}
	return ""
}
