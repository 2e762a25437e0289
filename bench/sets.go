package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
)

// sets measures deductions of three legs, from an organisation, one of its teams and one of a few
// models, by callers who want one after the other.
type sets struct{ callers int }

const (
	teams  = 1_000
	models = 10
)

func (r sets) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger"})
	if err != nil {
		return measurement{}, err
	}
	c, err := client.New("http://" + b.address)
	if err != nil {
		return measurement{}, err
	}
	names := []string{"org"}
	for i := range models {
		names = append(names, fmt.Sprint("model-", i))
	}
	for i := range max(s.scaled(teams), 1) {
		names = append(names, fmt.Sprint("team-", i))
	}
	if err := s.create(c, len(names), func(i int) client.CreateRequest {
		return client.CreateRequest{Name: names[i], TotalQuantity: endless, Durability: budget.Ledger}
	}); err != nil {
		return measurement{}, err
	}
	posters := make([]*poster, r.callers)
	for i := range posters {
		posters[i] = sets3(fmt.Sprint(i, "-"), names[1+models:])
	}
	m, _, err := s.drive(s.ctx, b, s.seconds(3), workload.Plan{Duration: s.seconds(8)}, posters)
	if err != nil {
		return m, err
	}
	m.note, err = groupedBy(b.address)
	return m, err
}

// sets3 makes calls of three legs. prefix begins their ids.
func sets3(prefix string, teams []string) *poster {
	random, n := rand.New(rand.NewPCG(1, uint64(len(prefix)))), 0 //nolint:gosec // no secret
	return &poster{
		next: func(body []byte) (string, []byte) {
			n++
			body = append(append(body, `{"request_id":"`...), prefix...)
			body = append(strconv.AppendInt(body, int64(n), 10),
				`","legs":[{"budget":"org","amount":1},{"budget":"`...)
			body = append(append(body, teams[random.IntN(len(teams))]...),
				`","amount":1},{"budget":"model-`...)
			body = strconv.AppendInt(body, int64(random.IntN(models)), 10)
			return "/v1/deductions", append(body, `","amount":1}]}`...)
		},
		answer: func(status int, _ []byte) error {
			if status == http.StatusOK {
				return nil
			}
			return errors.New("a set was not deducted")
		},
	}
}

