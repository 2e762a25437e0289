package strictjson_test

import (
	"github.com/budgetd/budgetd/api"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/google/go-cmp/cmp"
)

// order is a body with a member of each kind.
type order struct {
	ID         string            `json:"id" check:"required id"`
	Budget     string            `json:"budget" check:"same"`
	Amount     int64             `json:"amount" check:"1..max"`
	Count      int               `json:"count" check:"-5..5"`
	On         bool              `json:"on"`
	At         *time.Time        `json:"at" check:"null"`
	Dimensions map[string]string `json:"dimensions" check:"most=2 key"`
	Within     *order            `json:"within"`
	List       []order           `json:"list" check:"most=1"`
}

// readItems reads a body of orders, each with its own faults.
func readItems(body string) (ofItems []*api.Faults, tooMany bool, err error) {
	each := strictjson.Each{Name: "items", Most: 3, Next: func() (any, *api.Faults) {
		ofItems = append(ofItems, new(api.Faults))
		return new(order), ofItems[len(ofItems)-1]
	}}
	var faults api.Faults
	strictjson.Read([]byte(body), &each, &faults)
	return ofItems, each.TooMany, faults.Err("test")
}

func read(body string) (order, error) {
	var o order
	var faults api.Faults
	strictjson.Read([]byte(body), &o, &faults)
	return o, faults.Err("test")
}

func TestReadsEveryKind(t *testing.T) {
	got, err := read(` {"id":"a\u0020b","budget":"7","amount":9007199254740991,"count":-5,"on":true,
		"at":"2026-01-31T10:00:00.0019+01:00","dimensions":{"user":"u1","ad":"ü"},
		"within":{"id":"w","list":[{"id":"l","within":{"id":"d"}},{"id":"m"},7]},"list":[]} `)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 31, 9, 0, 0, 1_000_000, time.UTC)
	want := order{ID: "a b", Budget: "7", Amount: budget.MaxAmount, Count: -5, On: true, At: &at,
		Dimensions: map[string]string{"user": "u1", "ad": "ü"},
		Within:     &order{ID: "w", List: []order{{ID: "l", Within: &order{ID: "d"}}, {ID: "m"}}},
		List:       []order{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFaults checks which code and field each of many faulty bodies is refused with.
func TestFaults(t *testing.T) {
	const malformed, invalid = budget.Malformed, budget.Invalid
	deep := strings.Repeat(`[`, 100_000)
	for _, c := range []struct {
		name, body string
		code       budget.Code
		field      string
	}{
		{"empty", ``, malformed, ""},
		{"blank", " \n", malformed, ""},
		{"no JSON", `hello`, malformed, ""},
		{"an array", `[{"id":"a"}]`, malformed, ""},
		{"a string", `"a"`, malformed, ""},
		{"null", `null`, malformed, ""},
		{"cut", `{"id":"a"`, malformed, "id"},
		{"cut in a string", `{"id":"a`, malformed, "id"},
		{"trailing object", `{"id":"a"}{}`, malformed, ""},
		{"trailing text", `{"id":"a"} x`, malformed, ""},
		{"trailing bracket", `{"id":"a"}}`, malformed, ""},
		{"trailing NUL", "{\"id\":\"a\"}\x00", malformed, ""},
		{"byte order mark", "\ufeff" + `{"id":"a"}`, malformed, ""},
		{"UTF-16", "{\x00\"\x00i\x00d\x00", malformed, ""},
		{"comment", `{"id":"a"/*x*/}`, malformed, "id"},
		{"trailing comma", `{"id":"a",}`, malformed, "id"},
		{"single quotes", `{'id':'a'}`, malformed, ""},
		{"unknown", `{"id":"a","amont":1}`, malformed, "amont"},
		{"case variant", `{"id":"a","Amount":1}`, malformed, "Amount"},
		{"spaced name", `{"id":"a","amount ":1}`, malformed, "amount "},
		{"duplicate", `{"id":"a","id":"a"}`, malformed, "id"},
		{"duplicate by escape", `{"id":"a","\u0069d":"a"}`, malformed, "id"},
		{"duplicate inside", `{"id":"a","dimensions":{"u":"1","u":"2"}}`, malformed, "dimensions.u"},
		{"duplicate inside an unknown", `{"id":"a","x":{"u":"1","u":"2"}}`, malformed, "x.u"},
		{"invalid UTF-8", "{\"id\":\"a\xff\"}", malformed, "id"},
		{"lone surrogate", `{"id":"\ud800"}`, malformed, "id"},
		{"deep arrays", `{"id":` + deep, malformed, "id"},
		{"deep unknown", `{"x":` + deep + strings.Repeat(`]`, 100_000) + `}`, malformed, "x"},
		{"deep objects", strings.Repeat(`{"id":`, 100_000), malformed, "id"},
		{"missing", `{}`, invalid, "id"},
		{"null text", `{"id":null}`, malformed, "id"},
		{"number as text", `{"id":7}`, malformed, "id"},
		{"empty text", `{"id":""}`, invalid, "id"},
		{"control character", `{"id":"a\u0000"}`, invalid, "id"},
		{"too long", `{"id":"` + strings.Repeat("x", 129) + `"}`, invalid, "id"},
		{"budget as a number", `{"id":"a","budget":7}`, malformed, "budget"},
		{"not a boolean", `{"id":"a","on":1}`, malformed, "on"},
		{"not a boolean but null", `{"id":"a","on":null}`, malformed, "on"},
		{"not a time", `{"id":"a","at":"tomorrow"}`, invalid, "at"},
		{"a time without a zone", `{"id":"a","at":"2026-01-31T10:00:00"}`, invalid, "at"},
		{"a time as a number", `{"id":"a","at":1769850000}`, malformed, "at"},
		{"the zero time", `{"id":"a","at":"0001-01-01T00:00:00Z"}`, invalid, "at"},
		{"the zero time by zone", `{"id":"a","at":"0001-01-01T01:00:00+01:00"}`, invalid, "at"},
		{"dimensions an array", `{"id":"a","dimensions":["u"]}`, malformed, "dimensions"},
		{"dimension a number", `{"id":"a","dimensions":{"u":1}}`, malformed, "dimensions.u"},
		{"dimension empty", `{"id":"a","dimensions":{"u":""}}`, invalid, "dimensions.u"},
		{"dimension without a name", `{"id":"a","dimensions":{"":"x"}}`, invalid, "dimensions"},
		{"dimension with CR LF", `{"id":"a","dimensions":{"u\r\n":"x"}}`, invalid, "dimensions"},
		{"too many dimensions", `{"id":"a","dimensions":{"a":"x","b":"x","c":"x"}}`, invalid, "dimensions"},
		{"items an object", `{"items":{}}`, malformed, "items"},
		{"items broken", `{"items":[{"id":"b"},{"id":tru}]}`, malformed, "items[1].id"},
		{"item with a duplicate", `{"items":[{"id":"b"},{"id":"c","id":"d"}]}`, malformed, "items[1].id"},
		{"within an array", `{"id":"a","within":[]}`, malformed, "within"},
		{"within null", `{"id":"a","within":null}`, malformed, "within"},
		{"within without an id", `{"id":"a","within":{}}`, invalid, "within.id"},
		{"within unknown", `{"id":"a","within":{"id":"b","x":1}}`, malformed, "within.x"},
		{"within case variant", `{"id":"a","within":{"id":"b","Amount":1}}`, malformed, "within.Amount"},
		{"within duplicate", `{"id":"a","within":{"id":"b","id":"b"}}`, malformed, "within.id"},
		{"within cut", `{"id":"a","within":{"id":"b"`, malformed, "within.id"},
		{"within fraction", `{"id":"a","within":{"id":"b","amount":1.5}}`, malformed, "within.amount"},
		{"within too many dimensions", `{"id":"a","within":{"id":"b","dimensions":{"a":"x","b":"x","c":"x"}}}`,
			invalid, "within.dimensions"},
		{"after within", `{"id":"a","within":{"id":"b"},"amount":0}`, invalid, "amount"},
		{"broken after within", `{"id":"a","within":{"id":"b"} tru}`, malformed, "within"},
		{"list an object", `{"id":"a","list":{}}`, malformed, "list"},
		{"list of a number", `{"id":"a","list":[{"id":"b"},7]}`, malformed, "list[1]"},
		{"list of null", `{"id":"a","list":[null]}`, malformed, "list[0]"},
		{"list without an id", `{"id":"a","list":[{"id":"b"},{}]}`, invalid, "list[1].id"},
		{"list unknown", `{"id":"a","list":[{"id":"b","y":{"z":[1]}}]}`, malformed, "list[0].y"},
		{"list duplicate", `{"id":"a","list":[{"id":"b"},{"id":"c","id":"c"}]}`, malformed, "list[1].id"},
		{"list cut", `{"id":"a","list":[{"id":"b"}`, malformed, "list"},
		{"list broken", `{"id":"a","list":[{"id":"b"},{"id":tru}]}`, malformed, "list[1].id"},
		{"list broken in one too many", `{"id":"a","list":[{"id":"b"},{"id":"b"},{"id":tru}]}`, malformed, "list"},
		{"list within", `{"id":"a","within":{"id":"b","list":[{"id":"c"},{"id":7}]}}`, malformed, "within.list[1].id"},
		{"after a list", `{"id":"a","list":[{"id":"b"}],"amount":0}`, invalid, "amount"},
		{"items cut", `{"items":[{"id":"b"}`, malformed, "items"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(c.body)
			if strings.HasPrefix(c.body, `{"items"`) {
				_, _, err = readItems(c.body)
			}
			expect(t, err, c.code, c.field)
		})
	}
}

func expect(t *testing.T, err error, code budget.Code, field string) {
	t.Helper()
	e, ok := err.(*budget.Error)
	if !ok || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if len(e.Fields) != 1 || e.Fields[0].Field != field {
		t.Fatalf("blamed %v, want %q alone", e.Fields, field)
	}
}

func TestAmounts(t *testing.T) {
	tests := map[string]budget.Code{
		`1`: "", `9007199254740991`: "",
		`0`: budget.Invalid, `-1`: budget.Invalid, `-0`: budget.Invalid, `9007199254740992`: budget.Invalid,
		`9007199254740993`: budget.Invalid, `9223372036854775808`: budget.Invalid,
		`-9223372036854775808`: budget.Invalid, `18446744073709551617`: budget.Invalid,
		strings.Repeat("9", 10_000): budget.Invalid, "-" + strings.Repeat("9", 10_000): budget.Invalid,
	}
	for _, text := range []string{`1.5`, `1.0`, `1e3`, `1E+18`, `1e0`, `0.0`, `1e-1`, `1e999999`, `"5"`,
		`""`, `null`, `true`, `[]`, `[1]`, `{}`, `NaN`, `Infinity`, `-Infinity`, `0x10`, `" 7"`, `７`, `"７"`,
		`007`, `+5`, `-`, `.5`, `5.`, `1_000`, `1,000`, `--1`, `5n`} {
		tests[text] = budget.Malformed
	}
	for text, code := range tests {
		_, err := read(`{"id":"a","amount":` + text + `}`)
		if code != "" {
			e, ok := err.(*budget.Error)
			if !ok || e.Code != code || e.Fields[0].Field != "amount" {
				t.Errorf("%.40s: got %v, want %s of amount", text, err, code)
			}
		} else if err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, ok := range map[string]bool{`0`: true, `-5`: true, `5`: true, `-0`: false, `6`: false, `-6`: false} {
		if _, err := read(`{"id":"a","count":` + text + `}`); (err == nil) != ok {
			t.Errorf("count %s: %v", text, err)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, err := read(`{"amount":0,"on":1,"at":"x","foo":1,"dimensions":{"u":""},"budget":{}}`)
	e := err.(*budget.Error)
	var fields []string
	for _, f := range e.Fields {
		fields = append(fields, f.Field)
	}
	want := []string{"on", "foo", "budget", "amount", "at", "dimensions.u", "id"}
	if diff := cmp.Diff(want, fields); diff != "" || e.Code != budget.Malformed {
		t.Error(e.Code, diff)
	}
}

func TestFaultsAreBounded(t *testing.T) {
	var body strings.Builder
	for i := range 5000 {
		body.WriteString(`,"` + strings.Repeat("ü", 500) + string(rune('a'+i)) + `":1`)
	}
	_, err := read(`{"id":"a"` + body.String() + `}`)
	e := err.(*budget.Error)
	if len(e.Fields) != 100 || !strings.Contains(e.Message, "4900 more") {
		t.Errorf("%d faults listed: %s", len(e.Fields), e.Message)
	}
	if field := e.Fields[0].Field; len(field) > 70 || !strings.HasSuffix(field, "ü…") {
		t.Errorf("field %q", field)
	}
}

func TestItemsHaveTheirOwnFaults(t *testing.T) {
	items, _, err := readItems(`{"items":[{"id":"x"},{"amount":0}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := items[0].Err("item"); err != nil {
		t.Error(err)
	}
	if e := items[1].Err("item").(*budget.Error); e.Code != budget.Invalid || len(e.Fields) != 2 {
		t.Error(e)
	}
	// An element that can be no item makes the whole malformed, and does not end it.
	_, _, err = readItems(`{"items":[{"id":"x"},7,"seven"],"id":1}`)
	if e := err.(*budget.Error); e.Code != budget.Malformed || len(e.Fields) != 3 ||
		e.Fields[0].Field != "items[1]" || e.Fields[1].Field != "items[2]" || e.Fields[2].Field != "id" {
		t.Errorf("%+v", e)
	}
	items, tooMany, err := readItems(`{"items":[{"id":"1"},{"id":"2"},{"id":"3"},{"id":"4"},x`)
	if len(items) != 3 || !tooMany || err != nil {
		t.Errorf("%d items, %t, %v: reading must end after the most items", len(items), tooMany, err)
	}
	for _, none := range []string{`{"items":[]}`, `{}`} {
		if _, _, err = readItems(none); err == nil {
			t.Errorf("%s passed", none)
		}
	}
}

func TestReadersAreReused(t *testing.T) {
	body := []byte(`{"id":"a","amount":5,"budget":"b"}`)
	allocs := testing.AllocsPerRun(100, func() {
		var o order
		var faults api.Faults
		strictjson.Read(body, &o, &faults)
	})
	if allocs > 10 {
		t.Errorf("%.0f allocations per body", allocs)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"id":"a","amount":5,"dimensions":{"u":"v"}}`)
	f.Add(`{"id":"a","id":1,"amount":1e3}`)
	f.Fuzz(func(t *testing.T, body string) {
		o, err := read(body)
		if err == nil && (budget.CheckRequestID(o.ID) != "" || o.Amount < 0 || o.Amount > budget.MaxAmount) {
			t.Errorf("%q passed as %+v", body, o)
		}
		if e, ok := err.(*budget.Error); err != nil && (!ok || len(e.Fields) == 0) {
			t.Errorf("%q: %v names nothing", body, err)
		}
	})
}
