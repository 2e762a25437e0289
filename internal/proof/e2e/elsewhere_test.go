package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/iana"
)

// TestTriedElsewhere gives real nodes, in every mode, inputs for which other quota and budget
// systems gave wrong answers.
func TestTriedElsewhere(t *testing.T) {
	eachWorld(t, func(w *dailyWorld, mode string) {
		for _, c := range []struct {
			name string
			try  func(w *dailyWorld, mode string)
		}{
			{"more than a later period can have", neverLater},
			{"an end that has passed", endHasPassed},
			{"a month that begins on the 31st", monthOfOneDay},
			{"periods that begin at an anchor", anchored},
			{"next with a bound", rolloverIsBounded},
			{"a batch of strings", batchOfStrings},
			{"a limit in the zone of its budget", zoneOfLimits},
			{"another limit leaves the others", limitsByName},
			{"7 units over 30 periods", sevenOverThirty},
			{"collects are no applies", collectsAreNoApplies},
			{"what is shown is accepted", shownIsAccepted},
		} {
			w.Run(c.name, func(t *testing.T) { c.try(&dailyWorld{T: t, nodes: w.nodes, ctl: w.ctl}, mode) })
		}
	})
}

// says runs budgetctl, which must exit with that status and print those texts, and returns its
// output.
func (w *dailyWorld) says(status int, line string, texts ...string) string {
	w.Helper()
	got, said := w.run("%s", line)
	if got != status {
		w.Errorf("budgetctl %s: status %d, want %d\n%s", line, got, status, said)
	}
	for _, text := range texts {
		if !strings.Contains(said, text) {
			w.Errorf("budgetctl %s does not say %q:\n%s", line, text, said)
		}
	}
	return said
}

// shows runs a command of budgetctl that prints a budget, and returns that budget.
func (w *dailyWorld) shows(line string) (b client.Budget) {
	w.Helper()
	said := w.says(0, line+" -o json")
	if err := json.Unmarshal([]byte(said), &b); err != nil {
		w.Fatalf("budgetctl %s: %v\n%s", line, err, said)
	}
	return b
}

// asks deducts an amount, which must be refused with that code, and returns the problem.
func (w *dailyWorld) asks(name string, amount int64, code budget.Code) *client.Problem {
	w.Helper()
	_, err := w.next().client().Deduct(w.Context(), name, client.DeductRequest{RequestID: fmt.Sprint("ask-", amount),
		Amount: amount, Dimensions: map[string]string{"user": "u1"}})
	p := problem(err)
	if p.Code != code {
		w.Fatalf("a deduction of %d from %s: %v, want %s", amount, name, err, code)
	}
	return p
}

// never asks for an amount that no period can ever cover, which the answer must say.
func (w *dailyWorld) never(name string, amount int64) {
	w.Helper()
	if p := w.asks(name, amount, budget.BudgetExhausted); !p.Never || p.RetryAfter != 0 {
		w.Errorf("%d from %s: %v, never %v, retry after %s", amount, name, p, p.Never, p.RetryAfter)
	}
}

// later asks for an amount that the period beginning at that instant can cover, which the answer
// must say.
func (w *dailyWorld) later(name string, amount int64, at time.Time) {
	w.Helper()
	const apart = 2 * time.Second // for rounding to seconds, and for clocks that differ
	most := time.Until(at) + apart
	p := w.asks(name, amount, budget.PeriodExhausted)
	if p.Never || p.RetryAfter > most || p.RetryAfter < time.Until(at)-apart {
		w.Errorf("%d from %s: %v, retry after %s, and the period begins in %s", amount, name, p, p.RetryAfter,
			time.Until(at))
	}
}

// neverLater checks that Retry-After is sent only if a later period can cover the amount.
func neverLater(w *dailyWorld, mode string) {
	zone, ends := quietHour()
	rule := " --buckets 2 --timezone " + zone + " --durability " + mode + " --every hour"
	end := func(hours int) string {
		return " --end " + ends.Add(time.Duration(hours)*time.Hour).Format(time.RFC3339)
	}

	w.does("create forfeit-%s --total 1000000 --quantity 500 --unused forfeit%s", mode, rule)
	w.never("forfeit-"+mode, 600)
	w.says(3, "deduct forfeit-"+mode+" 600 --request-id told", "budget_exhausted", "no period ever has more than 500")
	w.does("deduct forfeit-%s 1 --request-id one", mode)
	w.later("forfeit-"+mode, 500, ends)

	w.does("create next-%s --total 1000000 --quantity 500 --unused next%s", mode, rule)
	w.later("next-"+mode, 600, ends)
	w.later("next-"+mode, 1100, ends.Add(time.Hour))

	w.does("create spread-end-%s --total 100 --unused spread%s%s", mode, rule, end(1))
	w.later("spread-end-"+mode, 60, ends) // the last of two hours gets all that is left
	w.never("spread-end-"+mode, 101)
	w.does("create next-end-%s --total 900 --quantity 500 --unused next%s%s", mode, rule, end(0))
	if p := w.asks("next-end-"+mode, 600, budget.BudgetExhausted); p.RetryAfter != 0 {
		w.Errorf("after the last period: %v, retry after %s", p, p.RetryAfter)
	}

	w.does("create two-windows-%s --total 1000 --window 06:00-18:00=10 --window 18:00-24:00=20 --buckets 2"+
		" --timezone %s --durability %s", mode, noonZone(), mode)
	w.never("two-windows-"+mode, 25)
	if p := w.asks("two-windows-"+mode, 15, budget.PeriodExhausted); p.RetryAfter <= 0 || p.RetryAfter > 6*time.Hour {
		w.Errorf("15 of a window of 10 before one of 20: %v, retry after %s", p, p.RetryAfter)
	}
}

// endHasPassed checks that a budget cannot get an end in the past without allow_past, neither when
// it is created nor later.
func endHasPassed(w *dailyWorld, mode string) {
	const past = " --end 2020-01-01T00:00:00Z"
	name := "past-" + mode
	made := "create " + name + " --type promo --total 10 --buckets 1 --durability " + mode
	w.says(1, made+past, "end_at", "allow_past")
	w.says(0, made, "effective from", "end ")
	w.says(1, "set "+name+past, "end_at", "allow_past")
	if b := w.view(name); b.Status != budget.Effective || !b.EndAt.IsZero() || b.EffectiveAt.IsZero() {
		w.Errorf("after a refused end: %+v", b)
	}
	w.does("set %s --allow-past%s", name, past)
	if b := w.view(name); b.Status != budget.Expired {
		w.Errorf("with an end that has passed: %+v", b)
	}
	w.says(0, strings.Replace(made, name, name+"-asked", 1)+past+" --allow-past", "expired")
}

// monthOfOneDay checks that a month of which the budget has one day gets a part of the quantity,
// and that the answers say how much.
func monthOfOneDay(w *dailyWorld, mode string) {
	start := time.Date(time.Now().Year()+1, 1, 31, 0, 0, 0, 0, time.UTC)
	line := fmt.Sprintf(" --total 1000000 --every month --quantity 3100 --buckets 2 --start %s --durability %s",
		start.Format(time.RFC3339), mode)
	b := w.shows("create month-" + mode + line + " --dry-run")
	var got []int64
	for _, p := range b.Periods {
		got = append(got, p.Quantity)
	}
	if len(got) < 3 || !slices.Equal(got[:3], []int64{100, 3100, 3100}) ||
		!b.Periods[0].End.Equal(start.AddDate(0, 0, 1)) {
		w.Errorf("a month from the 31st of January: %v in %+v", got, b.Periods)
	}
	b = w.shows("create month-" + mode + line)
	if b.Period == nil || b.Period.Total != 100 || !b.NextResetAt.Equal(start) || !b.EffectiveAt.Equal(start) {
		w.Errorf("created: period %+v, reset at %s, effective at %s", b.Period, b.NextResetAt, b.EffectiveAt)
	}
	b = w.shows("create whole-" + mode + line + " --partial whole")
	if b.Period == nil || b.Period.Total != 3100 {
		w.Errorf("a part that counts as whole: period %+v", b.Period)
	}
}

// anchored checks that months, weeks and days begin at the anchor of the rule, in its zone, and
// that a limit keeps its own anchor.
func anchored(w *dailyWorld, mode string) {
	berlin, err := iana.Zone("Europe/Berlin")
	must(w.T, err)
	start := time.Date(time.Now().Year()+1, 1, 31, 6, 0, 0, 0, berlin)
	for i, c := range []struct {
		rule string
		from time.Time
	}{
		{"month --anchor day=31,hour=6", start},
		{"month --anchor day=31,hour=6", start.AddDate(0, 0, 1)},
		{"week --anchor weekday=sunday,hour=6", start},
		{"day --anchor hour=6", start},
	} {
		b := w.shows(fmt.Sprintf("create anchor-%s-%d --total 1000000 --every %s --quantity 3100 --timezone Europe/Berlin"+
			" --start %s --dry-run --durability %s --routing-dimension user --limit name=l,dimension=user,window=month,day=31,hour=6,max=5",
			mode, i, c.rule, c.from.Format(time.RFC3339), mode))
		if len(b.Periods) < 2 || b.TypeRule.Anchor.Hour != 6 {
			w.Fatalf("%s: %+v", c.rule, b)
		}
		begins, gets := b.Periods[1].Start.In(berlin), b.Periods[0].Quantity
		switch day := begins.AddDate(0, 0, 1).Day(); {
		case begins.Hour() != 6:
			w.Errorf("%s: the second period begins at %s", c.rule, begins)
		case strings.HasPrefix(c.rule, "month") && day != 1, strings.HasPrefix(c.rule, "week") && begins.Weekday() != time.Sunday:
			w.Errorf("%s: the second period begins on %s", c.rule, begins)
		case gets > 3100 || (gets == 3100) != (i == 0 || i == 3 || start.Weekday() == time.Sunday && i == 2):
			w.Errorf("%s from %s: the first period gets %d of 3100", c.rule, c.from, gets)
		}
		if a := b.Limits[0].Window; a.Anchor.Day != 31 || a.Anchor.Hour != 6 || a.Timezone != "Europe/Berlin" {
			w.Errorf("the limit's window is %+v", a)
		}
	}
}

// rolloverIsBounded checks that max_rollover bounds what a period carries to the next one.
func rolloverIsBounded(w *dailyWorld, mode string) {
	zone, ends := quietHour()
	name := "rollover-" + mode
	w.does("create %s --total 10000000 --every hour --quantity 300 --unused next --max-rollover 10 --buckets 2"+
		" --timezone %s --durability %s", name, zone, mode)
	if b := w.view(name); b.TypeRule.MaxRollover != 10 || b.Period.Total != 300 {
		w.Errorf("rule %+v, period %+v", b.TypeRule, b.Period)
	}
	w.later(name, 310, ends)
	w.never(name, 311)
}

// batchAnswer is the answer to a batch, or its problem.
type batchAnswer struct {
	Code    budget.Code
	Results []struct {
		Code              budget.Code
		Budget, RequestID string
	}
}

func (w *dailyWorld) batch(body string) (status int, out batchAnswer) {
	w.Helper()
	answer, err := http.Post("http://"+w.next().addr+"/v1/deductions:batch", "application/json", strings.NewReader(body))
	must(w.T, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(w.T, err)
	must(w.T, json.Unmarshal([]byte(strings.ReplaceAll(string(text), "request_id", "RequestID")), &out))
	return answer.StatusCode, out
}

// batchOfStrings checks that a batch with a string instead of a deduction is malformed as a whole
// and has no effect.
func batchOfStrings(w *dailyWorld, mode string) {
	name := "strings-" + mode
	w.does("create %s --type promo --total 10 --buckets 1 --durability %s", name, mode)
	const sound = `{"budget":"%s","request_id":"a","amount":1}`
	for _, body := range []string{`{"deductions":["a","b"]}`, `{"deductions":[` + sound + `,"b"]}`,
		`{"deductions":[` + sound + `,7,null]}`} {
		if strings.Contains(body, "%s") {
			body = fmt.Sprintf(body, name)
		}
		status, said := w.batch(body)
		if status != http.StatusBadRequest || said.Code != budget.Malformed || said.Results != nil {
			w.Errorf("%s: status %d, %+v", body, status, said)
		}
	}
	w.agrees(name, 10, 0, 0, -1, -1)
}

// zoneOfLimits checks that a limit without a zone counts days of its budget's zone, and that the
// zone is shown.
func zoneOfLimits(w *dailyWorld, mode string) {
	zone := "Asia/Kolkata"
	there, err := iana.Zone(zone)
	must(w.T, err)
	if time.Now().In(there).Hour() == 23 { // the day must not end during the test
		zone = "America/New_York"
		there, err = iana.Zone(zone)
		must(w.T, err)
	}
	name := "zone-" + mode
	w.does("create %s --type promo --total 100 --buckets 2 --timezone %s --routing-dimension user --durability %s"+
		" --limit name=day,dimension=user,window=day,max=1 --limit name=utc,dimension=user,window=day,max=50,timezone=UTC",
		name, zone, mode)
	if b := w.view(name); b.Limits[0].Window.Timezone != zone || b.Limits[1].Window.Timezone != "UTC" {
		w.Errorf("limits %+v", b.Limits)
	}
	w.says(0, "get "+name, "day of "+zone, "day of UTC")
	w.does("deduct %s 1 --request-id first --dimension user=u1", name)
	reset := w.asks(name, 1, budget.LimitExceeded).Limit.ResetAt.In(there)
	if reset.Hour() != 0 || reset.Minute() != 0 {
		w.Errorf("the day of %s ends at %s", zone, reset)
	}
}

// limitsByName checks that a limit is added, changed or removed by its name, that the others stay,
// and that budgetctl prints the difference first. Only a file replaces all limits.
func limitsByName(w *dailyWorld, mode string) {
	name := "named-" + mode
	names := func() string {
		var out []string
		for _, l := range w.view(name).Limits {
			out = append(out, fmt.Sprint(l.Name, "=", l.Max))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	file := filepath.Join(w.TempDir(), "limits.yaml")
	must(w.T, os.WriteFile(file, []byte("limits:\n- {name: only, dimension: user, window: {kind: lifetime}, max: 4}\n"), 0o600))
	w.does("create %s --type promo --total 100 --buckets 2 --routing-dimension user --durability %s"+
		" --limit name=day,dimension=user,window=day,max=1 --limit name=month,dimension=user,window=month,max=9", name, mode)
	for _, c := range []struct{ flags, said, want string }{
		{"--limit name=burst,dimension=user,window=first_hit:5s,max=3", "+ limit burst:", "burst=3 day=1 month=9"},
		{"--limit name=day,dimension=user,window=day,max=2", "- limit day:", "burst=3 day=2 month=9"},
		{"--remove-limit month", "- limit month:", "burst=3 day=2"},
		{"--limits-file " + file, "+ limit only:", "only=4"},
	} {
		if said := w.says(0, "set "+name+" "+c.flags, c.said); strings.Index(said, c.said) > strings.Index(said, "version") {
			w.Errorf("set %s: the difference comes after the budget:\n%s", c.flags, said)
		}
		if got := names(); got != c.want {
			w.Errorf("after set %s: limits %s, want %s", c.flags, got, c.want)
		}
	}
}

// sevenOverThirty checks that 7 units are spread over all of 30 periods.
func sevenOverThirty(w *dailyWorld, mode string) {
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	b := w.shows(fmt.Sprintf("create seven-%s --total 7 --every day --start %s --end %s --buckets 1 --dry-run --durability %s",
		mode, first.Format(time.RFC3339), first.AddDate(0, 0, 30).Format(time.RFC3339), mode))
	var got [][2]int64
	for _, p := range b.Periods {
		got = append(got, [2]int64{p.Number, p.Quantity})
	}
	if want := [][2]int64{{1, 0}, {2, 0}, {3, 0}, {30, 1}}; !slices.Equal(got, want) {
		w.Errorf("7 units over 30 days: periods and their units %v, want %v", got, want)
	}
	zone, ends := quietHour()
	name := "seven-hours-" + mode
	w.does("create %s --total 7 --every hour --end %s --buckets 1 --timezone %s --durability %s", name,
		ends.Add(29*time.Hour).Format(time.RFC3339), zone, mode)
	w.later(name, 1, ends.Add(3*time.Hour)) // in the fifth of 30 hours
}

// collectsAreNoApplies checks that adjust_cnt bounds the applies of each bucket, and that a
// collect does not count as an apply.
func collectsAreNoApplies(w *dailyWorld, mode string) {
	name := "applies-" + mode
	w.does("create %s --type promo --total 12 --buckets 2 --adjust-cnt 2 --durability %s", name, mode)
	for i, amount := range []int64{8, 1, 1, 1, 1} { // a bucket has six, so the first one needs the other's
		_, err := w.next().client().Deduct(w.Context(), name, client.DeductRequest{RequestID: fmt.Sprint("r", i),
			Amount: amount, Key: "one bucket"})
		must(w.T, err)
	}
	w.says(0, "buckets "+name, "APPLIES", "COLLECTS")
	eventually(w.T, time.Minute, "collects are counted", func() error {
		list, err := w.next().client().Buckets(w.Context(), name)
		must(w.T, err)
		collects := 0
		for _, one := range list.Buckets {
			if one.OutCnt > 2 {
				w.Fatalf("bucket %s has applied %d times", one.Key, one.OutCnt)
			}
			collects += one.CollectCnt
		}
		if collects == 0 {
			return fmt.Errorf("no collect: %+v", list.Buckets)
		}
		return nil
	})
}

// shownIsAccepted checks that budgetctl accepts names and numbers as it prints them, and that its
// errors suggest what was meant.
func shownIsAccepted(w *dailyWorld, mode string) {
	name := "shown-" + mode
	w.says(0, "create "+name+" --type promo --total 1,000,000 --buckets 2 --durability "+mode, "1,000,000")
	w.says(0, "offline "+name+" bucket-1")
	w.says(3, "apply "+name+" bucket-1", "bucket_offline", name+":bucket-1 is offline")
	w.says(3, "offline "+name+" 0", "last_bucket", name+":bucket-0", name)
	w.says(1, "shrink "+name+" 1,000,000", "must leave a total of 1 to ", "it is 1000000 now")
	w.says(2, "create other --total 5 --window 22:00-02:00=5", "does not cross midnight", "--window 22:00-24:00=")
	w.says(2, "create other --total 5 --sharding-quantity 5", "did you mean --sharding?")
	status, said := w.batch(`{"deductions":[{"budget":"absent","request_id":"r1","amount":1}]}`)
	if status != http.StatusOK || len(said.Results) != 1 || said.Results[0].Code != budget.BudgetNotFound ||
		said.Results[0].Budget != "absent" || said.Results[0].RequestID != "r1" {
		w.Errorf("a problem in a batch: status %d, %+v", status, said)
	}
}
