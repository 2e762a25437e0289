package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	// inline is a command in a sentence. It may lack arguments.
	inline = regexp.MustCompile("`budgetctl ([^`]+)`")

	// typed is a command on lines of its own, for a reader to type. An error of budgetctl begins alike,
	// but has a colon after the command.
	typed = regexp.MustCompile(`(?m)^ *(?:\$ )?(?:\S+=\S* )?(?:bin/)?budgetctl ([^\s:]+(?:$| (?:.*\\\n)*.*$))`)

	// placeholder is what a reader replaces.
	placeholder = regexp.MustCompile(`\b[A-Z][A-Z_-]*\b`)

	// ends are words after which another command begins, or a file.
	ends = []string{"|", "&&", "||", ";", "&", ">", "<"}

	// word is an argument of a shell's command line, of parts that may be quoted.
	word = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)
)

// TestDocumentedCommands checks that every command and flag of budgetctl that a document names
// exists. A command for a reader to type also has valid flags and the right number of arguments.
func TestDocumentedCommands(t *testing.T) {
	list := exec.Command("git", "ls-files", "*.md", "deploy/*.sh", "scripts/*.sh", ":!docs/adr",
		":!CHANGELOG.md") // these also name what was removed
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, page := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inline.FindAllStringSubmatch(string(text), -1) {
			commands++
			if _, _, err := named(m[1]); err != nil {
				t.Errorf("%s: budgetctl %s: %v", page, m[1], err)
			}
		}
		for _, m := range typed.FindAllStringSubmatch(string(text), -1) {
			commands++
			if err := valid(m[1]); err != nil {
				t.Errorf("%s: budgetctl %s: %v", page, m[1], err)
			}
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands were found", commands)
	}
}

// named returns the command of a line and its flags and arguments, all of which must have names that
// exist.
func named(line string) (*cobra.Command, []string, error) {
	line = placeholder.ReplaceAllString(strings.ReplaceAll(line, "\\\n", " "), "1")
	var args []string
	for _, w := range word.FindAllString(line, -1) {
		if strings.HasPrefix(w, "#") || slices.Contains(ends, w) {
			break // the rest is a comment or another command
		}
		args = append(args, strings.NewReplacer(`"`, "", `'`, "").Replace(w))
	}
	a := &app{getenv: os.Getenv, stdout: io.Discard, stderr: io.Discard}
	command, args, err := a.rootCommand().Find(args)
	if err != nil {
		return nil, nil, err
	}
	command.InitDefaultHelpFlag()
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if long := strings.HasPrefix(arg, "--"); long && command.Flag(name) == nil {
			return nil, nil, fmt.Errorf("%s has no flag --%s", command.CommandPath(), name)
		}
		if command.HasSubCommands() && !command.Runnable() && !strings.HasPrefix(arg, "-") {
			return nil, nil, fmt.Errorf("%s has no command %s", command.CommandPath(), arg)
		}
	}
	return command, args, nil
}

// valid checks a command that a reader types.
func valid(line string) error {
	command, args, err := named(line)
	if err != nil {
		return err
	}
	if err := command.ParseFlags(args); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}
