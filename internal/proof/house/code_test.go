package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// The largest numbers of lines of code, without blank lines and comments, in Go and Lua.
const (
	mostProduct = 68_195 // what budgetd, budgetctl and the client are made of
	mostSupport = 11_115 // all other code outside tests
	mostTests   = 73_890
)

// lineCount counts lines of code and lines that have only a comment.
type lineCount struct{ code, comments int }

func (c *lineCount) add(other lineCount) {
	c.code += other.code
	c.comments += other.comments
}

// TestSizesOfCode counts the lines of product, support and tests, and bounds them.
func TestSizesOfCode(t *testing.T) {
	linked := linkedFolders(t)
	var product, support, tests lineCount
	for _, file := range sourceFiles(t, ".go", ".lua") {
		lines := linesOf(t, file)
		switch {
		case strings.HasSuffix(file, "_test.go"):
			tests.add(lines)
		case linked[path.Dir(file)]:
			product.add(lines)
		default:
			support.add(lines)
		}
	}
	for _, part := range []struct {
		name  string
		lines lineCount
		most  int
	}{{"product", product, mostProduct}, {"support", support, mostSupport}, {"tests", tests, mostTests}} {
		share := 100 * float64(part.lines.comments) / float64(max(1, part.lines.code+part.lines.comments))
		t.Logf("%s: %d lines of code, %.1f %% comments", part.name, part.lines.code, share)
		if part.lines.code > part.most || part.lines.code < 1000 {
			t.Errorf("%s: %d lines of code, at most %d", part.name, part.lines.code, part.most)
		}
	}
}

// linkedFolders returns the folders of the packages that the two commands and the client link, and
// of the scripts that they embed.
func linkedFolders(t *testing.T) map[string]bool {
	t.Helper()
	folders := map[string]bool{}
	for module, packages := range map[string][]string{
		".": {"./cmd/budgetd", "./cmd/budgetctl"}, "client": {"."},
	} {
		out, err := goList(module, append([]string{"-deps", "-json=ImportPath,Dir,EmbedFiles"},
			packages...)...)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				ImportPath, Dir string
				EmbedFiles      []string
			}
			err := decoder.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if folderOf(p.ImportPath) == "" {
				continue
			}
			folders[relative(p.Dir)] = true
			for _, file := range p.EmbedFiles {
				if strings.HasSuffix(file, ".lua") {
					folders[relative(filepath.Join(p.Dir, filepath.Dir(file)))] = true
				}
			}
		}
	}
	return folders
}

// linesOf counts the lines of a file.
func linesOf(t *testing.T, file string) lineCount {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(file, ".lua") {
		return luaLines(string(text))
	}
	return goLines(text)
}

func goLines(text []byte) (n lineCount) {
	lines := strings.Split(string(text), "\n")
	code, comment := make([]bool, len(lines)), make([]bool, len(lines))
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		of := code
		switch {
		case tok == token.COMMENT:
			of = comment
		case tok == token.SEMICOLON && literal == "\n":
			continue // the end of a line
		}
		first := file.Line(pos) - 1
		for i := range 1 + strings.Count(literal, "\n") { // a text in backquotes has several lines
			of[first+i] = true
		}
	}
	for i, line := range lines {
		switch {
		case strings.TrimSpace(line) == "":
		case code[i]:
			n.code++
		case comment[i]:
			n.comments++
		}
	}
	return n
}

func luaLines(text string) (n lineCount) {
	block := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case block || strings.HasPrefix(line, "--"):
			n.comments++
			block = (block || strings.HasPrefix(line, "--[[")) && !strings.Contains(line, "]]")
		default:
			n.code++
		}
	}
	return n
}

func TestLines(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		lua  bool
		want lineCount
	}{
		"go":                      {"// Package p\npackage p\n\nvar a = 1 // one\n/* two\n\nlines */\n", false, lineCount{2, 3}},
		"a text of several lines": {"package p\nconst s = `\n// no comment\n\n`\n", false, lineCount{4, 0}},
		"code after a comment":    {"package p\n/* a */ var a int\n", false, lineCount{2, 0}},
		"lua":                     {"-- a\nlocal x = 1 -- one\n\n--[[ a\nb\n]]\nreturn x\n", true, lineCount{2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			got := goLines([]byte(tt.text))
			if tt.lua {
				got = luaLines(tt.text)
			}
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
