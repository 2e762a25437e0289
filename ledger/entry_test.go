package ledger_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/ledger"
)

// sample is a request of which every field is set.
func sample() ledger.Request {
	return ledger.Request{
		ID: "order-1", Nonce: "12345678", Reference: "for Ann", Dimensions: `{"user":"u1"}`,
		Fingerprint: ledger.Fingerprint(5, "order-1", "for Ann", `{"user":"u1"}`),
	}
}

// TestGoldenLog pins the bytes that stores keep: they were computed by another program (Python's
// hashlib), and a store's scripts must write the same.
func TestGoldenLog(t *testing.T) {
	request := hex.EncodeToString([]byte(ledger.EncodeRequest(sample())))
	const wantRequest = "3132333435363738" + // nonce
		"01f32fa680916a8ddd186ee1cbe74537" + // fingerprint
		"07" + "6f726465722d31" + "07" + "666f7220416e6e" + "0d" + "7b2275736572223a227531227d"
	if request != wantRequest {
		t.Errorf("request %s, want %s", request, wantRequest)
	}
	chain := ""
	for _, entry := range []struct{ line, text, chain string }{
		{ledger.OpenLine(7, 3, 2), "1o0|7/3/2", "d3b4aa2823ef9e5f"},
		{ledger.Line(ledger.KindGrant, 50, "1"), "1g50|1", "baac7a465756e98b"},
		{ledger.Line(ledger.KindDeduct, 5, ledger.EncodeRequest(sample())),
			"1d5|" + ledger.EncodeRequest(sample()), "82269ec77f1ca383"},
		{ledger.Line(ledger.KindClose, 45, "1"), "1c45|1", "17e0c67e101b2317"},
	} {
		if entry.line != entry.text {
			t.Errorf("line %q, want %q", entry.line, entry.text)
		}
		if chain = ledger.Chain(chain, entry.line); chain != entry.chain {
			t.Errorf("chain value of %q is %s, want %s", entry.line, chain, entry.chain)
		}
	}
	if got := ledger.OpenChain(7, 3, 2); got != "d3b4aa2823ef9e5f" {
		t.Errorf("OpenChain is %s", got)
	}
}

// TestOpenChainTellsLivesApart: no two lives of buckets share a chain.
func TestOpenChainTellsLivesApart(t *testing.T) {
	seen := map[string]string{}
	for bucket := range int64(12) {
		for epoch := range int64(12) {
			for activation := range int64(12) {
				life := fmt.Sprint(bucket, epoch, activation)
				chain := ledger.OpenChain(bucket, epoch, activation)
				if other, found := seen[chain]; found {
					t.Fatalf("%s and %s share %s", life, other, chain)
				}
				seen[chain] = life
			}
		}
	}
}

func TestParseEntry(t *testing.T) {
	chain := strings.Repeat("a", ledger.ChainBytes)
	for name, want := range map[string]ledger.Entry{
		"open":             {Kind: ledger.KindOpen, Line: "1o0|7/3/2"},
		"open, empty":      {Kind: ledger.KindOpen, Line: "1o0|"},
		"grant":            {Kind: ledger.KindGrant, Amount: 50, Number: 3, Line: "1g50|3"},
		"close of nothing": {Kind: ledger.KindClose, Line: "1c0|0"},
		"the largest amount": {Kind: ledger.KindGrant, Amount: 9007199254740991, Number: 1,
			Line: "1g9007199254740991|1"},
		"deduction": {Kind: ledger.KindDeduct, Amount: 5, Request: sample(),
			Line: "1d5|" + ledger.EncodeRequest(sample())},
		"deduction with bars": {Kind: ledger.KindDeduct, Amount: 5,
			Request: ledger.Request{ID: "a|b", Nonce: "||||||||", Fingerprint: strings.Repeat("|", 16)},
			Line: "1d5|" + ledger.EncodeRequest(ledger.Request{ID: "a|b", Nonce: "||||||||",
				Fingerprint: strings.Repeat("|", 16)})},
	} {
		t.Run(name, func(t *testing.T) {
			want.Seq, want.Chain = 9, chain
			got, err := ledger.ParseEntry(9, chain+want.Line)
			if err != nil || got != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestParseEntryRefuses(t *testing.T) {
	chain := strings.Repeat("a", ledger.ChainBytes)
	request := ledger.EncodeRequest(sample())
	whole := sample()
	whole.HoldTTL, whole.Group, whole.Counts = 1, "g", `{"l":1}`
	held := ledger.EncodeRequest(whole)
	for name, test := range map[string]struct{ text, why string }{
		"empty":                      {"", "cut short"},
		"only a chain value":         {chain, "cut short"},
		"no bar":                     {chain + "1g5", "no payload"},
		"one byte short":             {chain + "1g", "cut short"},
		"a later format":             {chain + "2g5|1", "format '2' is not known"},
		"no kind":                    {chain + "1|5|1", "kind '|' is not known"},
		"an unknown kind":            {chain + "1x5|1", "kind 'x' is not known"},
		"a capital kind":             {chain + "1G5|1", "kind 'G' is not known"},
		"no amount":                  {chain + "1g|1", "amount is not a number"},
		"a negative amount":          {chain + "1g-5|1", "amount is not a number"},
		"a signed amount":            {chain + "1g+5|1", "amount is not a number"},
		"an amount with a zero":      {chain + "1g05|1", "amount is not a number"},
		"an exponent, as Lua writes": {chain + "1g1e+15|1", "amount is not a number"},
		"a fraction, as Lua writes":  {chain + "1g5.0|1", "amount is not a number"},
		"an amount above int64":      {chain + "1g9223372036854775808|1", "amount is not a number"},
		"an amount with a space":     {chain + "1g5 |1", "amount is not a number"},
		"no grant number":            {chain + "1g5|", "grant number is not a number"},
		"a negative grant number":    {chain + "1g5|-1", "grant number is not a number"},
		"more after the number":      {chain + "1g5|1|", "grant number is not a number"},
		"a close without a number":   {chain + "1c5|x", "grant number is not a number"},
		"no request":                 {chain + "1d5|", "cut short"},
		"a request without texts":    {chain + "1d5|" + request[:24], "runs past its end"},
		"a request cut in its id":    {chain + "1d5|" + request[:30], "runs past its end"},
		"a request cut at its end":   {chain + "1d5|" + request[:len(request)-1], "runs past its end"},
		"more after the dimensions":  {chain + "1d5|" + request + "x", "runs past its end"},
		"more after the request":     {chain + "1d5|" + held + "x", "1 bytes follow"},
		"more after the counts":      {chain + "1d5|" + request + "\x05\x00\x00x", "1 bytes follow"},
		"a length that never ends": {chain + "1d5|" + request[:24] + strings.Repeat("\xff", 20),
			"runs past its end"},
		"the largest length": {chain + "1d5|" + request[:24] + strings.Repeat("\xff", 9) + "\x01",
			"runs past its end"},
		"a length above int": {chain + "1d5|" + request[:24] +
			"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", "runs past its end"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ledger.ParseEntry(4, test.text)
			if err == nil || !strings.Contains(err.Error(), test.why) ||
				!strings.HasPrefix(err.Error(), "log entry 4: ") {
				t.Errorf("%+v, %v; want %q", got, err, test.why)
			}
		})
	}
}

// requests draws any request that can be encoded.
func requests() *rapid.Generator[ledger.Request] {
	text := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) })
	fixed := func(n int) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.Byte(), n, n), func(b []byte) string { return string(b) })
	}
	return rapid.Custom(func(t *rapid.T) ledger.Request {
		return ledger.Request{
			ID: text.Draw(t, "id"), Reference: text.Draw(t, "reference"),
			Dimensions: text.Draw(t, "dimensions"), Nonce: fixed(8).Draw(t, "nonce"),
			Fingerprint: fixed(16).Draw(t, "fingerprint"),
		}
	})
}

func TestEntriesSurviveTheStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := requests().Draw(t, "request")
		amount := rapid.Int64Range(0, 1<<63-1).Draw(t, "amount")
		seq := rapid.Int64Range(0, 1<<62).Draw(t, "seq")
		line := ledger.Line(ledger.KindDeduct, amount, ledger.EncodeRequest(request))
		want := ledger.Entry{Seq: seq, Kind: ledger.KindDeduct, Amount: amount, Request: request,
			Chain: ledger.Chain("", line), Line: line}
		got, err := ledger.ParseEntry(seq, want.Chain+line)
		if err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		number := rapid.Int64Range(0, 1<<63-1).Draw(t, "number")
		line = ledger.Line(ledger.KindGrant, amount, fmt.Sprint(number))
		got, err = ledger.ParseEntry(seq, ledger.Chain("", line)+line)
		if err != nil || got.Amount != amount || got.Number != number {
			t.Fatalf("grant %+v, %v", got, err)
		}
	})
}

// TestRequestsAreToldApart: where the texts of two requests differ in any way, so do their bytes.
func TestRequestsAreToldApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := requests().Draw(t, "a"), requests().Draw(t, "b")
		if rapid.Bool().Draw(t, "shift") { // the same bytes, cut elsewhere
			b = a
			cut := rapid.IntRange(0, len(a.Reference)).Draw(t, "cut")
			b.ID, b.Reference = a.ID+a.Reference[:cut], a.Reference[cut:]
		}
		if (a == b) != (ledger.EncodeRequest(a) == ledger.EncodeRequest(b)) {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	chain := strings.Repeat("a", ledger.ChainBytes)
	for _, line := range []string{
		"", "1o0|7/3/2", "1g50|1", "1c45|1", "1d5|" + ledger.EncodeRequest(sample()), "1d5|", "1x|",
		"1d5|" + strings.Repeat("\xff", 60),
	} {
		f.Add(chain + line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ledger.ParseEntry(1, text)
		if err != nil {
			return
		}
		if e.Chain+e.Line != text || e.Amount < 0 || e.Number < 0 || e.Seq != 1 {
			t.Fatalf("%q became %+v", text, e)
		}
		payload := fmt.Sprint(e.Number)
		switch e.Kind {
		case ledger.KindOpen:
			return
		case ledger.KindDeduct:
			payload = ledger.EncodeRequest(e.Request)
		}
		line := ledger.Line(e.Kind, e.Amount, payload)
		again, err := ledger.ParseEntry(1, e.Chain+line)
		e.Line = line // lengths may have been written in more bytes than they need
		if err != nil || again != e {
			t.Fatalf("%q became %+v and then %+v, %v", text, e, again, err)
		}
	})
}
