package secret

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"
)

const marker = "marker-4711"

// TestMarkerIsNowhere formats, logs and encodes secrets that hold a marker, and checks that no
// output shows it.
func TestMarkerIsNowhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write(t, file, marker+"\n")
	source, err := File(file)
	if err != nil {
		t.Fatal(err)
	}
	text := New(marker)
	type inside struct {
		Text    Text            `json:"text" yaml:"text"`
		Pointer *Text           `json:"pointer" yaml:"pointer"`
		Map     map[string]Text `json:"map" yaml:"map"`
		List    []Text          `json:"list" yaml:"list"`
		private Text
	}
	values := []any{text, &text, []Text{text}, map[string]Text{"a": text}, source, Value(text),
		inside{text, &text, map[string]Text{"b": text}, []Text{text}, text}, fmt.Errorf("wrapped: %v", text)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%c", "%U", "%t", "%5.2s"} {
		for _, value := range values {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	logger := slog.New(slog.NewJSONHandler(&out, nil))
	plain := slog.New(slog.NewTextHandler(&out, nil))
	for _, value := range values {
		logger.Info("a", "value", value)
		plain.Info("a", "value", value)
	}
	for _, write := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal, xml.Marshal,
		func(v any) ([]byte, error) { return jsonv2.Marshal(v) }} {
		for _, value := range []any{text, &text, inside{Text: text, Pointer: &text}} {
			written, _ := write(value) // XML cannot write every type
			out.Write(written)
		}
	}
	func() {
		defer func() { fmt.Fprint(&out, recover()) }()
		panic(text)
	}()
	for _, shown := range []string{marker, fmt.Sprintf("%x", marker), fmt.Sprintf("%X", marker),
		fmt.Sprintf("% x", marker), fmt.Sprintf("%d", []byte(marker)), fmt.Sprintf("%U", []rune(marker))} {
		if strings.Contains(out.String(), shown) {
			t.Errorf("the marker is shown as %q: %s", shown, out.String())
		}
	}
	if !strings.Contains(out.String(), Hidden) {
		t.Error("nothing was written")
	}
	if text.Reveal() != marker || source.Now().Reveal() != marker {
		t.Error("Reveal does not return the secret")
	}
}

func TestEmpty(t *testing.T) {
	var zero Source
	for _, text := range []Text{{}, New(""), zero.Now()} {
		if !text.Empty() || text.String() != "" || text.Reveal() != "" {
			t.Errorf("%v is not empty", text)
		}
	}
	if New("a").Empty() || !New("a").Equal(New("a")) || New("a").Equal(New("b")) || New("a").Equal(New("ab")) {
		t.Error("Empty or Equal does not tell secrets apart")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFileIsReadAgain checks that the file is read each time, and that the last secret is used
// while it cannot be read.
func TestFileIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	file, next := filepath.Join(dir, "secret"), filepath.Join(dir, "next")
	write(t, next, "one\r\n")
	if err := os.Symlink(next, file); err != nil {
		t.Fatal(err)
	}
	source, err := File(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		do     func()
		want   string
		failed bool
	}{
		{func() {}, "one", false},
		{func() { write(t, next, "  two words\t\n\n") }, "  two words", false},
		{func() { write(t, next, "\n") }, "  two words", true},
		{func() { os.Remove(next) }, "  two words", true},
		{func() { write(t, next, strings.Repeat("x", maxBytes+1)) }, "  two words", true},
		{func() { write(t, next, "three") }, "three", false},
	} {
		step.do()
		text, err := source.Read()
		if text.Reveal() != step.want || (err != nil) != step.failed {
			t.Errorf("%q, %v; want %q, an error: %v", text.Reveal(), err, step.want, step.failed)
		}
	}
	for _, name := range []string{filepath.Join(dir, "none"), dir} {
		if _, err := File(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
	}
}
