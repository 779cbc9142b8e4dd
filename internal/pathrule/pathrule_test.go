// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package pathrule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// set compiles rules written as "action pattern".
func set(t testing.TB, lines ...string) *pathrule.Set {
	t.Helper()
	var list []vm.PathRule
	for _, l := range lines {
		action, pattern, _ := strings.Cut(l, " ")
		r, err := pathrule.Canonical(vm.PathAction(action), pattern, "")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	s, err := pathrule.Compile(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestJudge: the first rule that matches decides, a rule covers what is below it, and a name
// that a file system may take for another one is that one.
//
// 001-07
func TestJudge(t *testing.T) {
	s := set(t, "allow .env.example", "hide .env*", "allow /src/docs/draft", "read-only /src/docs", "deny /src/.git/hooks/**", "ask /src/keys/*.pem",
		"deny /a/**/b", "hide /naïve", "deny /straße", "read-only /q/?.txt")
	for _, x := range []struct {
		path   string
		action vm.PathAction
		below  bool
	}{
		{"/", vm.PathAllow, false},
		{"/src", vm.PathAllow, false},
		{"/src/.env", vm.PathHide, false},
		{"/src/.ENV", vm.PathHide, false},
		{"/src/.e\u200dnv", vm.PathHide, false},
		{"/src/.env.local/x", vm.PathHide, true},
		{"/src/.env.example", vm.PathAllow, false},
		{"/src/.ENV.example", vm.PathHide, false}, // what is allowed is exact
		{"/src/env", vm.PathAllow, false},
		{"/src/docs", vm.PathReadOnly, false},
		{"/src/docs/a/b", vm.PathReadOnly, false},
		{"/src/docs/draft/x", vm.PathAllow, false},
		{"/src/docs2", vm.PathAllow, false},
		{"/src/.git/hooks", vm.PathAllow, false},
		{"/src/.git/hooks/pre-commit", vm.PathDeny, false},
		{"/src/.git/hooks/d/x", vm.PathDeny, true},
		{"/src/.git/HOOKS/pre-commit", vm.PathDeny, false},
		{"/src/keys/a.pem", vm.PathAsk, false},
		{"/src/keys/a.pem2", vm.PathAllow, false},
		{"/src/keys/d/a.pem", vm.PathAllow, false},
		{"/a/b", vm.PathDeny, false},
		{"/a/x/y/b", vm.PathDeny, false},
		{"/a/x/b/c", vm.PathDeny, true},
		{"/a/x/c", vm.PathAllow, false},
		{"/nai\u0308ve", vm.PathHide, false},
		{"/NAÏVE/x", vm.PathHide, true},
		{"/STRASSE", vm.PathDeny, false},
		{"/q/é.txt", vm.PathAllow, false}, // é is two characters when decomposed
		{"/q/e.txt", vm.PathReadOnly, false},
		{"/src//docs/", vm.PathReadOnly, false},
	} {
		if v := s.Judge(x.path); v.Action != x.action || v.Below != x.below {
			t.Errorf("%q is %s (below %v), want %s (below %v)", x.path, v.Action, v.Below, x.action, x.below)
		}
	}
	if v := (*pathrule.Set)(nil).Judge("/x"); !v.Writes() {
		t.Errorf("without rules a path is %v, want allowed", v)
	}
}

// TestAlike: a directory may be renamed only if no path below it gets another verdict.
func TestAlike(t *testing.T) {
	s := set(t, "hide .env", "deny /src/a/key", "read-only /src/docs/**", "ask /src/x/**/y")
	for _, x := range []struct {
		a, b string
		want bool
	}{
		{"/src/one", "/src/two", true},
		{"/src/a", "/src/b", false},
		{"/src/b", "/src/a", false},
		{"/src/a/deep", "/src/b/deep", true},
		{"/src/docs/one", "/src/docs/two", true},
		{"/src/docs/one", "/src/one", false},
		{"/src/x/1", "/src/x/2", true},
		{"/src/x/1", "/src/z/1", false},
		{"/src/.env/a", "/src/.env/b", true},
		{"/src/.env/a", "/src/b", false},
		{"/src", "/source", false},
	} {
		if got := s.Alike(x.a, x.b); got != x.want {
			t.Errorf("renaming %s to %s: alike is %v, want %v", x.a, x.b, got, x.want)
		}
	}
}

// TestPlaces: which directories a rule reaches.
func TestPlaces(t *testing.T) {
	s := set(t, "hide /src/.env")
	for dir, want := range map[string]bool{"/src": true, "/": true, "/src/.env": true, "/src/.env/x": true, "/data": false, "/src/a": false} {
		if got := s.Reaches(dir); got != want {
			t.Errorf("the rule about /src/.env reaches %s: %v, want %v", dir, got, want)
		}
	}
	for _, x := range []struct {
		pattern, dir string
		want         bool
	}{
		{"/src/.env", "/src", true}, {"/src/**", "/src", true}, {"/**/.env", "/src", false}, {"/s*/x", "/src", false}, {"/src", "/src/a", false},
	} {
		if got := pathrule.Within(x.pattern, x.dir); got != x.want {
			t.Errorf("%s is within %s: %v, want %v", x.pattern, x.dir, got, x.want)
		}
	}
}

// TestCanonical: what a user writes, and what is no rule.
func TestCanonical(t *testing.T) {
	for _, x := range []struct{ pattern, mount, want string }{
		{".env", "", "/**/.env"},
		{".git/hooks/", "", "/**/.git/hooks"},
		{"/work/", "", "/work"},
		{".env", "/src", "/src/**/.env"},
		{"/.env", "/src/", "/src/.env"},
		{"**/*.pem", "/src", "/src/**/**/*.pem"},
	} {
		r, err := pathrule.Canonical(vm.PathDeny, x.pattern, x.mount)
		if err != nil || r.Path != x.want {
			t.Errorf("%q below %q is %q, %v, want %q", x.pattern, x.mount, r.Path, err, x.want)
		}
	}
	for _, p := range []string{"", "/", "/**", "/*/../x", "/a//b", "/./a", "/a/**b", "/a\n", "/\xff", "/**/a/**/b/**/c/**/d", "/" + strings.Repeat("a", 2000), strings.Repeat("/a", 61)} {
		if _, err := pathrule.Canonical(vm.PathDeny, p, ""); vm.KindOf(err) != vm.Invalid {
			t.Errorf("the pattern %.40q is taken: %v", p, err)
		}
	}
	if _, err := pathrule.Canonical("block", "/a", ""); vm.KindOf(err) != vm.Invalid {
		t.Errorf("an unknown action is taken: %v", err)
	}
	if _, err := pathrule.Canonical(vm.PathDeny, "a", "src"); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a relative mount point is taken: %v", err)
	}
	var many []vm.PathRule
	for i := range pathrule.MaxRules + 1 {
		many = append(many, vm.PathRule{Action: vm.PathDeny, Path: fmt.Sprintf("/%d", i)})
	}
	if err := pathrule.Check(many); vm.KindOf(err) != vm.Limit {
		t.Errorf("%d rules: %v, want a limit", len(many), err)
	}
	if err := pathrule.Check(many[:pathrule.MaxRules]); err != nil {
		t.Errorf("%d rules: %v", pathrule.MaxRules, err)
	}
	if err := pathrule.Check([]vm.PathRule{{Action: vm.PathDeny, Path: "/a"}, {Action: vm.PathAllow, Path: "/a"}}); vm.KindOf(err) != vm.Invalid {
		t.Errorf("two rules with one pattern: %v, want invalid", err)
	}
}

// FuzzJudge: no pattern and no path makes the package fail, and what is below a restricted
// directory is never allowed more than the rules say.
func FuzzJudge(f *testing.F) {
	f.Add("/a/**/b*", "/a/x/b/c")
	f.Add("*.?em", "/\xff/é.pem")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		r, err := pathrule.Canonical(vm.PathHide, pattern, "")
		if err != nil {
			return
		}
		s, err := pathrule.Compile([]vm.PathRule{r})
		if err != nil {
			t.Fatalf("%q is canonical and does not compile: %v", r.Path, err)
		}
		v := s.Judge(path)
		if below := s.Judge(path + "/x"); v.Hidden() && !below.Below {
			t.Errorf("%q hides %q and shows what is below it", r.Path, path)
		}
		if folded := s.Judge(strings.ToUpper(path)); v.Hidden() && strings.ToLower(strings.ToUpper(path)) == path && !folded.Hidden() {
			t.Errorf("%q hides %q and not its upper case", r.Path, path)
		}
		if !s.Alike(path, path) {
			t.Errorf("%q is not like itself", path)
		}
	})
}

// TestWire: rules survive their short form.
func TestWire(t *testing.T) {
	list := []vm.PathRule{{Action: vm.PathHide, Path: "/**/.env"}, {Action: vm.PathAllow, Path: "/a b/ü"}, {Action: vm.PathReadOnly, Path: "/r"}, {Action: vm.PathAsk, Path: "/q"}, {Action: vm.PathDeny, Path: "/d"}}
	s, err := pathrule.Decode(pathrule.Encode(list))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if v := s.Judge(strings.ReplaceAll(r.Path, "**", "x")); v.Action != r.Action {
			t.Errorf("%s is %s after decoding, want %s", r.Path, v.Action, r.Action)
		}
	}
	for _, bad := range []string{"x/a\n", "\n", "h\n", "ha\n"} {
		if _, err := pathrule.Decode(bad); err == nil {
			t.Errorf("%q is decoded", bad)
		}
	}
}
