package strictjson

import (
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// day is the unit d: 24 hours, independent of any time zone.
const day = 24 * time.Hour

// maxDays keeps a length within an int64 of nanoseconds.
const maxDays = 100 * 366

// ParseDuration parses a length of time above 0: whole numbers of units, the larger unit first,
// without a sign and without spaces ("5s", "8h", "1h30m", "250ms"), and d for 24 hours ("1d",
// "1d12h"). why says what is wrong with the text, or is "".
func ParseDuration(text string) (length time.Duration, why string) {
	const want = `must be a length of time such as "5s", "10m", "8h" or "1d" (d is 24 hours)`
	rest := text
	if number, after, found := strings.Cut(text, "d"); found {
		days, err := strconv.ParseUint(number, 10, 31)
		if err != nil || number[0] < '0' || number[0] > '9' || days > maxDays {
			return 0, want
		}
		length, rest = time.Duration(days)*day, after
	}
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || rest[0] < '0' || rest[0] > '9' || more > maxDays*day {
			return 0, want
		}
		length += more
	}
	if length <= 0 || length > maxDays*day {
		return 0, want
	}
	return length, ""
}

// FormatDuration formats a length for ParseDuration: "8h", 90 seconds as "1m30s", whole days as
// "1d".
func FormatDuration(length time.Duration) string {
	if length >= day && length%day == 0 {
		return strconv.FormatInt(int64(length/day), 10) + "d"
	}
	text := length.String()
	if short, cut := strings.CutSuffix(text, "m0s"); cut {
		text = short + "m"
	}
	if short, cut := strings.CutSuffix(text, "h0m"); cut {
		text = short + "h"
	}
	return text
}

// Strings reads an array of at most limit strings that pass check.
func (r *Reader) Strings(name string, into *[]string, limit int, check func(string) string) {
	if !r.expect(name, '[', "an array") {
		return
	}
	var read []string
	r.open()
	for i := 0; !r.broken && r.peek() != ']'; i++ {
		var text string
		r.Text(name+"["+strconv.Itoa(i)+"]", &text, check)
		if len(read) <= limit {
			read = append(read, text)
		}
		r.member = name
	}
	r.close(']')
	if len(read) > limit {
		r.Invalid(name, "has more than %d elements", limit)
		return
	}
	*into = read
}

// Integers reads an object of at most limit integers of 0 … budget.MaxAmount. Names must pass
// check.
func (r *Reader) Integers(name string, into *map[string]int64, limit int,
	check func(string) string) {
	r.object(name, &integers{name, into, limit, check, nil})
	r.member = name
}

// integers is the Body of Integers.
type integers struct {
	name  string
	into  *map[string]int64
	limit int
	check func(string) string
	read  map[string]int64
}

func (n *integers) Member(r *Reader, name string) bool {
	field := n.name + "." + name
	if why := n.check(name); why != "" {
		field = n.name
		r.Invalid(field, "the name of a member %s", why)
	}
	var value int64
	r.Integer(field, &value, 0, budget.MaxAmount)
	if n.read == nil {
		n.read = make(map[string]int64, 4)
	}
	if len(n.read) <= n.limit {
		n.read[name] = value
	}
	return true
}

func (n *integers) Check(r *Reader) {
	if len(n.read) > n.limit {
		r.Invalid(n.name, "has more than %d members", n.limit)
		return
	}
	*n.into = n.read
}
