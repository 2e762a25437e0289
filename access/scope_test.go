package access

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestScopeCovers(t *testing.T) {
	for _, test := range []struct {
		scope        Scope
		tenant, name string
		want         bool
	}{
		{Scope{}, "a", "x", true},
		{Scope{Tenant: "a"}, "a", "x", true},
		{Scope{Tenant: "a"}, "b", "x", false},
		{Scope{Tenant: "a"}, "", "x", false},
		{Scope{Tenant: "a", Budgets: []string{"spring-*"}}, "a", "spring-sale", true},
		{Scope{Tenant: "a", Budgets: []string{"spring-*"}}, "a", "spring-", true},
		{Scope{Tenant: "a", Budgets: []string{"spring-*"}}, "a", "spring", false},
		{Scope{Tenant: "a", Budgets: []string{"spring-*"}}, "b", "spring-sale", false},
		{Scope{Budgets: []string{"x", "*-y"}}, "b", "a-y", true},
		{Scope{Budgets: []string{"x", "*-y"}}, "b", "xx", false},
		{Scope{Budgets: []string{"a*b*c"}}, "b", "abbbc", true},
		{Scope{Budgets: []string{"a*b*c"}}, "b", "acb", false},
	} {
		if got := test.scope.Covers(test.tenant, test.name); got != test.want {
			t.Errorf("%+v covers %s/%s: %v", test.scope, test.tenant, test.name, got)
		}
	}
}

var (
	someName = rapid.StringMatching(`[ab-]{0,6}`)
	somePat  = rapid.StringMatching(`[ab*-]{0,6}`)
)

// TestMatchesAsPathMatch compares matches with path.Match, which treats a star alike.
func TestMatchesAsPathMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern, name := somePat.Draw(t, "pattern"), someName.Draw(t, "name")
		want, err := path.Match(pattern, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := matches(pattern, name); got != want {
			t.Errorf("%q matches %q: %v", pattern, name, got)
		}
	})
}

// TestIncludesIsSound checks that a scope that includes another covers everything that it covers.
func TestIncludesIsSound(t *testing.T) {
	scope := rapid.Custom(func(t *rapid.T) Scope {
		return Scope{Tenant: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant"),
			Budgets: rapid.SliceOfN(somePat, 0, 3).Draw(t, "budgets")}
	})
	included := 0
	rapid.Check(t, func(t *rapid.T) {
		s, other := scope.Draw(t, "s"), scope.Draw(t, "other")
		tenant, name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "of"), someName.Draw(t, "name")
		if s.Includes(other) {
			included++
			if other.Covers(tenant, name) && !s.Covers(tenant, name) {
				t.Errorf("%+v includes %+v, but does not cover %s/%s", s, other, tenant, name)
			}
		}
		if !s.Includes(s) {
			t.Errorf("%+v does not include itself", s)
		}
	})
	if included == 0 {
		t.Error("no case of inclusion was drawn")
	}
}

func TestScopeCheck(t *testing.T) {
	for _, test := range []struct {
		scope  Scope
		faulty []string
	}{
		{Scope{}, nil},
		{Scope{Tenant: "a", Budgets: []string{"*", "a-*"}}, nil},
		{Scope{Tenant: "A"}, []string{"tenant"}},
		{Scope{Budgets: []string{""}}, []string{"budgets"}},
		{Scope{Budgets: []string{"a?"}}, []string{"budgets"}},
		{Scope{Tenant: "*", Budgets: []string{strings.Repeat("a", 64)}}, []string{"tenant", "budgets"}},
		{Scope{Budgets: slices.Repeat([]string{"a"}, 33)}, []string{"budgets"}},
	} {
		var fields []string
		for _, fault := range test.scope.Check() {
			fields = append(fields, fault.Field)
		}
		if diff := cmp.Diff(test.faulty, fields); diff != "" {
			t.Errorf("%+v: %s", test.scope, diff)
		}
	}
}
