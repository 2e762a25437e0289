package access

import (
	"strings"
	"testing"
)

// TestEveryCallWithEveryRole checks that a role may make its own calls and those of lower roles, and
// no others.
func TestEveryCallWithEveryRole(t *testing.T) {
	for _, call := range Calls() {
		for _, role := range Roles() {
			p := &Principal{Name: "p", Role: role}
			target := Target{Tenant: "a", Budget: "x"}
			want := Forbidden
			if call.Over == Nobody || role >= call.Least {
				want = Allowed
			}
			if got := p.May(call, target); got != want {
				t.Errorf("%s as %s: %v, want %v", call.Op, role, got, want)
			}
			target.More = true
			if call.More != 0 && role < call.More {
				want = Forbidden
			}
			if got := p.May(call, target); got != want {
				t.Errorf("%s, more, as %s: %v, want %v", call.Op, role, got, want)
			}
		}
		open := call.Over == Nobody
		for _, p := range []*Principal{nil, {}, {Role: 99}} {
			if got := p.May(call, Target{}); (got == Allowed) != open {
				t.Errorf("%s as %+v: %v", call.Op, p, got)
			}
		}
	}
}

// TestForeignTenant checks that a principal of one tenant cannot act on another tenant's budgets or
// learn which exist.
func TestForeignTenant(t *testing.T) {
	p := &Principal{Name: "p", Role: Admin, Scope: Scope{Tenant: "a", Budgets: []string{"x*"}}}
	for _, call := range Calls() {
		foreign, other, own := p.May(call, Target{Tenant: "b", Budget: "x"}),
			p.May(call, Target{Tenant: "a", Budget: "y"}), p.May(call, Target{Tenant: "a", Budget: "x1"})
		var want, wantOwn Decision
		switch call.Over {
		case Nobody, Self:
			want, wantOwn = Allowed, Allowed
		case Budget:
			want, wantOwn = Hidden, Allowed
		case Tenant:
			want, wantOwn = Forbidden, Allowed
		case Installation:
			want, wantOwn = Forbidden, Forbidden
		}
		if foreign != want || other != want || own != wantOwn {
			t.Errorf("%s: foreign %v, other name %v, own %v", call.Op, foreign, other, own)
		}
	}
}

// TestForbiddenBeforeHidden checks that a role that is too low is forbidden whether or not the
// budget is in scope, so that the refusal reveals nothing.
func TestForbiddenBeforeHidden(t *testing.T) {
	call, _ := CallOf("POST /v1/budgets/{budget}/append")
	p := &Principal{Role: Deduct, Scope: Scope{Tenant: "a"}}
	for _, tenant := range []string{"a", "b"} {
		if got := p.May(call, Target{Tenant: tenant, Budget: "x"}); got != Forbidden {
			t.Errorf("tenant %s: %v", tenant, got)
		}
	}
}

// TestDelegate checks which calls a delegate may make, and that it has no rights by a name alone, nor
// without a subtree.
func TestDelegate(t *testing.T) {
	p := &Principal{Role: Delegate, Scope: Scope{Tenant: "a", Subtree: 7}}
	for _, call := range Calls() {
		named, ofTenant := p.May(call, Target{Tenant: "a", Budget: "x"}), p.May(call, Target{Tenant: "a"})
		want, wantOfTenant := Forbidden, Forbidden
		switch {
		case call.Over == Nobody, call.Over == Self:
			want, wantOfTenant = Allowed, Allowed
		case call.Delegates == NoDelegate:
		case call.Over == Budget:
			want, wantOfTenant = Hidden, Hidden
		case call.Over == Tenant:
			wantOfTenant = Allowed
		}
		if named != want || ofTenant != wantOfTenant {
			t.Errorf("%s: %v on a name, want %v; %v on the tenant, want %v", call.Op, named, want, ofTenant, wantOfTenant)
		}
		if call.Over == Installation && call.Delegates != NoDelegate || call.Least.Includes(Operator) &&
			call.Delegates == Subtree && call.Op != "create" {
			t.Errorf("a delegate may %s", call.Op)
		}
		without := &Principal{Role: Delegate, Scope: Scope{Tenant: "a"}}
		if call.Over != Nobody && (without.Permits(&call) || without.May(call, Target{Tenant: "a"}) != Forbidden) {
			t.Errorf("%s without a subtree", call.Op)
		}
		if call.More != 0 && p.May(call, Target{Tenant: "a", More: true}) != Forbidden {
			t.Errorf("%s, more", call.Op)
		}
	}
	if p.Scope.All() || (Scope{Subtree: 7}).All() || !p.Scope.Includes(p.Scope) || p.Scope.Includes(Scope{Tenant: "a"}) ||
		(Scope{Tenant: "a", Budgets: []string{"*"}}).Includes(p.Scope) || !(Scope{Tenant: "a"}).Includes(p.Scope) {
		t.Error("a subtree includes more than itself, or is included where it is not")
	}
}

func TestMayIssue(t *testing.T) {
	all, ofA := Scope{}, Scope{Tenant: "a"}
	for _, test := range []struct {
		role    Role
		scope   Scope
		issue   Role
		toScope Scope
		want    bool
	}{
		{Admin, all, Admin, all, true}, {Admin, all, Read, ofA, true}, {Admin, ofA, Admin, ofA, true},
		{Admin, ofA, Read, all, false}, {Admin, ofA, Read, Scope{Tenant: "b"}, false},
		{Operator, all, Read, ofA, false}, {Admin, all, 0, ofA, false},
		{Admin, ofA, Delegate, Scope{Tenant: "a", Subtree: 7}, true}, {Operator, ofA, Delegate, ofA, false},
		{Delegate, ofA, Delegate, ofA, false}, {Delegate, Scope{Tenant: "a", Subtree: 7}, Read, Scope{Tenant: "a", Subtree: 7}, false},
	} {
		p := &Principal{Role: test.role, Scope: test.scope}
		if got := p.MayIssue(test.issue, test.toScope); got != test.want {
			t.Errorf("%+v issues %s %+v: %v", p, test.issue, test.toScope, got)
		}
	}
}

func TestRoleText(t *testing.T) {
	for _, role := range append(Roles(), Delegate) {
		text, err := role.MarshalText()
		var read Role
		if err != nil || read.UnmarshalText(text) != nil || read != role {
			t.Errorf("%s: %v, read as %s", text, err, read)
		}
	}
	var r Role
	if _, err := r.MarshalText(); err == nil || r.UnmarshalText([]byte("root")) == nil {
		t.Error("an invalid role is encoded or parsed")
	}
	if !strings.Contains(Role(9).String(), "9") {
		t.Error(Role(9))
	}
}

// TestCalls checks that the table of calls is complete and has no duplicates.
func TestCalls(t *testing.T) {
	ops, routes := map[string]bool{}, map[string]bool{}
	for _, call := range Calls() {
		route := call.Method + " " + call.Pattern
		if ops[call.Op] || routes[route] {
			t.Errorf("%s (%s) is in the table twice", route, call.Op)
		}
		ops[call.Op], routes[route] = true, true
		if (call.Least == 0) != (call.Over == Nobody) || (call.More == 0) != (call.When == "") ||
			call.More != 0 && call.More <= call.Least || call.Over.String() == "" {
			t.Errorf("%s: %+v", route, call)
		}
		if found, ok := CallOf(route); !ok || found != call {
			t.Errorf("%s is not found", route)
		}
		if !strings.Contains(Markdown(), "`"+route+"`") {
			t.Errorf("%s is not in the table of docs/SECURITY.md", route)
		}
	}
	if _, ok := CallOf("DELETE /v1/budgets"); ok {
		t.Error("a call is found that is not in the table")
	}
}

func TestAdministrative(t *testing.T) {
	for op, want := range map[string]bool{"append": true, "change": true, "create": true,
		"create key": true, "drain": true, "release": true, "deduct": false, "rollback": false,
		"check": false, "audit log": false, "keys": false, "logout": false} {
		for _, call := range Calls() {
			if call.Op == op && call.Administrative() != want {
				t.Errorf("%s: %v", op, !want)
			}
		}
	}
}
