package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/budgetd/budgetd"
)

// TestTypesAreUpToDate checks that the types of the clients are those of openapi.yaml. Run go
// generate to write them.
func TestTypesAreUpToDate(t *testing.T) {
	files, err := render(budgetd.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(sdk, name)); err != nil || string(got) != want {
			t.Errorf("%s is not up to date (%v): run go generate ./internal/sdktypes", name, err)
		}
	}
}

// TestTypes checks how each kind of schema is written.
func TestTypes(t *testing.T) {
	files, err := render([]byte(`
components:
  schemas:
    Id: {type: string}
    Units: {type: [integer, 'null']}
    Open: {type: [string, object], properties: {a: {type: string}}}
    Kind: {type: string, enum: [a, b]}
    Base: {type: object, required: [id], properties: {id: {$ref: '#/x/Id'}, kind: {$ref: '#/x/Kind'}}}
    More:
      allOf:
        - $ref: '#/x/Base'
        - {type: object, required: [units, ok], properties: {units: {$ref: '#/x/Units'}, ok: {type: boolean}}}
    MakeRequest: {type: object, required: [id], properties: {id: {type: string}, of: {type: integer}}}
    Span: {type: object, properties: {from: {type: number}, all_of_it: {type: array, items: {$ref: '#/x/Base'}},
      by: {type: object, additionalProperties: {$ref: '#/x/Units'}}, where: {$ref: '#/x/Open'}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"python/budgetd/api.py": {
			"Units = Union[int, None]\n", "Open = Union[str, \"OpenObject\"]\n", "Kind = Literal[\"a\", \"b\"]\n",
			"class Base(TypedDict):\n    id: \"Id\"\n    kind: NotRequired[\"Kind\"]\n",
			"class More(TypedDict):\n    id: \"Id\"\n    kind: NotRequired[\"Kind\"]\n    units: \"Units\"\n    ok: bool\n",
			"\"from\": NotRequired[float],\n", "\"by\": NotRequired[dict[str, \"Units\"]],\n",
		},
		"java/src/main/java/io/budgetd/api/Api.java": {
			"record More(\n      String id,\n      String kind,\n      Long units,\n      boolean ok) {}\n",
			"record MakeRequest(\n      String id,\n      Long of) {\n",
			"public static MakeRequest of(String id) {\n      return new MakeRequest(\n          id, null);\n    }\n",
			"public MakeRequest withOf(Long of) {\n      return new MakeRequest(\n          id, of);\n    }\n",
			"record Span(\n      Double from,\n      List<Base> allOfIt,\n      Map<String, Long> by,\n      Object where) {}\n",
		},
	} {
		for _, part := range parts {
			if !strings.Contains(files[name], part) {
				t.Errorf("%s lacks\n%s\nin\n%s", name, part, files[name])
			}
		}
	}
}
