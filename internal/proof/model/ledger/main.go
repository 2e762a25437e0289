package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/internal/proof/model/search"
)

func main() {
	flag.Parse()
	for _, f := range strings.Split(*with, ",") {
		feature[f] = true
	}
	search.Model[State, Op]{Start: start(), Moves: (*State).moves, Verdict: (*State).verdict,
		Show: func(s *State, op Op) string {
			return fmt.Sprintf("%s: %d %d %d %d  [%s ]", op.name, op.a, op.b, op.c, op.d, s.show())
		}}.Run()
}
