// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

const module = "github.com/warren-vm/warren/"

// allowed is the import direction: what each package may import of this
// module, except itself. A package that is not named fails the test.
var allowed = map[string][]string{
	"vm":                   {},
	"api":                  {"vm"},
	"client":               {"vm", "api"},
	"internal/link":        {"vm"},
	"internal/vt":          {},
	"internal/qmp":         {"vm"},
	"internal/layout":      {"vm"},
	"internal/ledger":      {"vm"},
	"internal/journal":     {"vm"},
	"internal/meter":       {"vm", "internal/ledger"},
	"internal/access":      {"vm", "internal/ledger"},
	"internal/store":       {"vm", "internal/ledger"},
	"internal/egress":      {"vm"},
	"internal/usernet":     {"vm", "internal/egress"},
	"internal/intercept":   {"vm", "internal/layout", "internal/ca", "internal/egress", "internal/usernet"},
	"internal/outside":     {"vm", "internal/egress"},
	"internal/secret":      {"vm", "internal/egress", "internal/layout", "internal/ledger", "internal/journal", "internal/seal", "internal/outside"},
	"internal/audit":       {"vm", "internal/layout", "internal/merkle"},
	"internal/merkle":      {},
	"internal/receipt":     {"vm", "internal/merkle"},
	"internal/evidence":    {"vm", "internal/layout", "internal/journal", "internal/receipt"},
	"internal/events":      {"vm", "internal/layout"},
	"internal/image":       {"vm", "internal/interpreter", "internal/layout", "internal/oci"},
	"internal/interpreter": {},
	"internal/oci":         {"vm", "internal/layout"},
	"internal/ca":          {"vm", "internal/layout"},
	"internal/proxy":       {"vm", "internal/layout", "internal/ca"},
	"internal/treesync":    {"vm"},
	"internal/agent":       {"vm", "internal/link", "internal/vt", "internal/treesync", "internal/pathrule"},
	"internal/guest":       {"vm", "internal/link"},
	"internal/confine":     {},
	"internal/qcow":        {"vm", "internal/layout", "internal/confine"},
	"internal/ext4":        {"vm"},
	"internal/gitignore":   {},
	"internal/pathrule":    {"vm"},
	"internal/review":      {"vm", "internal/ext4", "internal/qcow", "internal/gitignore"},
	"internal/scan":        {},
	"internal/reader":      {"vm", "internal/layout", "internal/confine", "internal/review", "internal/scan"},
	"internal/changes":     {"vm", "internal/layout", "internal/ledger", "internal/journal", "internal/access", "internal/engine", "internal/inside", "internal/review", "internal/reader", "internal/repo"},
	"internal/qemu":        {"vm", "internal/qmp", "internal/layout", "internal/link", "internal/confine", "internal/qcow"},
	"internal/monitor":     {"vm", "internal/layout", "internal/link", "internal/qmp", "internal/qemu", "internal/usernet", "internal/egress", "internal/guest", "internal/folder", "internal/pathrule", "internal/confine", "internal/proxy", "internal/intercept"},
	"internal/warm":        {"vm", "internal/layout", "internal/image", "internal/link", "internal/qemu", "internal/monitor", "internal/guest"},
	"internal/dockerfile":  {"vm", "internal/guest", "internal/layout", "internal/qcow", "internal/qemu", "internal/warm"},
	"internal/generation":  {"vm", "internal/layout", "internal/qemu", "internal/seal"},
	"internal/seal":        {"vm", "internal/layout"},
	"internal/doctor":      {"vm", "internal/layout", "internal/image", "internal/confine"},
	"internal/volume":      {"vm", "internal/layout", "internal/seal", "internal/qcow"},
	"internal/folder":      {"vm", "internal/link", "internal/pathrule"},
	"internal/spec":        {"vm"},
	"internal/diagnose":    {"vm"},
	"internal/storage":     {"vm", "internal/layout"},
	"internal/vault":       {"vm", "internal/ledger"},
	"internal/program":     {"vm", "internal/spec"},
	"internal/engine":      {"vm", "internal/egress", "internal/spec", "internal/program", "internal/storage", "internal/layout", "internal/ledger", "internal/journal", "internal/access", "internal/meter", "internal/vault", "internal/pathrule"},
	"internal/inside":      {"vm", "internal/spec", "internal/program", "internal/diagnose", "internal/layout", "internal/journal", "internal/access", "internal/engine", "internal/pathrule"},
	"internal/asks":        {"vm", "internal/ledger", "internal/journal", "internal/egress", "internal/outside"},
	"internal/names":       {"vm", "internal/ledger", "internal/journal", "internal/engine"},
	"internal/policy":      {"vm", "internal/egress", "internal/ledger", "internal/journal", "internal/engine"},
	"internal/answers":     {"vm", "internal/layout", "internal/ledger"},
	"internal/repo":        {"vm", "internal/layout", "internal/ledger", "internal/journal", "internal/access", "internal/outside"},
	"internal/objects":     {"vm", "internal/layout", "internal/ledger", "internal/journal", "internal/access", "internal/seal"},
	"internal/ship":        {"vm", "internal/access", "internal/journal", "internal/engine", "internal/inside", "internal/reader", "internal/review", "internal/objects"},
	"internal/s3d":         {"vm", "internal/objects"},
	"internal/job":         {"vm", "internal/ledger", "internal/journal", "internal/meter", "internal/vault", "internal/access", "internal/engine"},
	"internal/bundle":      {"vm", "internal/layout"},
	"internal/handoff":     {"vm", "internal/bundle", "internal/layout", "internal/journal", "internal/engine", "internal/repo", "internal/objects", "internal/qcow", "internal/seal"},
	"internal/backup":      {"vm", "internal/bundle", "internal/layout", "internal/ledger", "internal/store", "internal/seal", "internal/qcow", "internal/qemu", "internal/generation", "internal/audit", "internal/events", "internal/journal", "internal/engine", "internal/repo", "internal/objects"},
	"internal/house":       {"internal/evidence", "internal/asks", "internal/policy", "internal/backup", "internal/handoff", "vm", "internal/ledger", "internal/journal", "internal/access", "internal/meter", "internal/vault", "internal/engine", "internal/inside", "internal/names", "internal/job", "internal/answers", "internal/changes", "internal/repo", "internal/objects", "internal/ship", "internal/outside", "internal/secret"},
	"internal/httpd":       {"internal/asks", "vm", "api", "internal/spec", "internal/journal", "internal/access", "internal/vault", "internal/engine", "internal/inside", "internal/job", "internal/answers", "internal/changes", "internal/house", "internal/vt", "internal/repo", "internal/objects", "internal/ship", "internal/handoff", "internal/policy", "internal/secret", "internal/pathrule", "internal/screen"},
	"internal/e2b":         {"vm", "api", "internal/interpreter", "internal/layout", "internal/access", "internal/engine", "internal/inside", "internal/journal", "internal/policy"},
	"internal/freestyle":   {"vm", "api", "internal/access", "internal/answers", "internal/engine", "internal/inside", "internal/journal", "internal/meter", "internal/names", "internal/policy"},
	"internal/sshd":        {"vm", "internal/engine", "internal/repo"},
	"internal/cli":         {"vm", "api", "client", "internal/treesync", "internal/receipt", "internal/devcontainer", "internal/mcpd"},
	"internal/mcpd":        {"vm", "api", "client"},
	"internal/gateway":     {"vm", "internal/layout", "internal/ca", "internal/screen"},
	"internal/screen":      {"vm"},
	"internal/embedded":    {"vm", "internal/layout"},
	"internal/start":       {},
	"internal/vmtest":      nil, // test harness: anything
	"internal/powercut":    {},
	"internal/serve":       nil, // the wiring: knows every package
	"internal/rules":       {},
	"bench":                nil,
	"cmd/warren":           {"api", "vm", "client", "internal/cli", "internal/serve"},
	"cmd/warren-agent":     {"api", "vm", "internal/agent"},
	"cmd/warren-monitor":   {"api", "vm", "internal/monitor"},
	"cmd/warren-reader":    {"vm", "internal/review", "internal/scan"},
	"tools/clienttypes":    {},
	"tools/dist":           {},
	"tools/results":        {},
	"tools/runtests":       {"tools/results"},
	"tools/site":           {},
	"tools/requirements":   {"tools/results"},

	"internal/imagefile":    {"vm", "internal/bundle", "internal/image", "internal/layout", "internal/qcow"},
	"internal/devcontainer": {"vm"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestImportDirection holds the table of ARCHITECTURE.md.
func TestImportDirection(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "test/") {
			continue
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("%s is not in the import table: say what it may import", name)
			continue
		}
		if may == nil {
			continue
		}
		for _, imp := range p.Imports {
			in, ours := strings.CutPrefix(imp, module)
			if ours && !slices.Contains(may, in) {
				t.Errorf("%s imports %s, which the table does not allow", name, in)
			}
		}
	}
}

// sources calls f with each Go file of the repository.
func sources(t *testing.T, f func(name string, data []byte)) {
	t.Helper()
	walk(t, func(name string) bool { return strings.HasSuffix(name, ".go") }, f)
}

func walk(t *testing.T, want func(string) bool, f func(name string, data []byte)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == ".git" || n == ".work" || n == "bin" || n == "node_modules" || rel == "internal/embedded/files" {
				return filepath.SkipDir
			}
			return nil
		}
		if !want(rel) {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f(rel, data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLicenceHeaders(t *testing.T) {
	const header = "// Copyright 2026 The Warren Authors\n// SPDX-License-Identifier: Apache-2.0\n"
	sources(t, func(name string, data []byte) {
		text := string(data)
		if strings.HasPrefix(text, "//go:build ") {
			_, text, _ = strings.Cut(text, "\n\n")
		}
		if !strings.HasPrefix(text, header) {
			t.Errorf("%s lacks the licence header", name)
		}
	})
}

func TestPackageComments(t *testing.T) {
	has := map[string]bool{}
	sources(t, func(name string, data []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		dir := filepath.Dir(name)
		f, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		has[dir] = has[dir] || f.Doc != nil
	})
	for dir, ok := range has {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// TestExportedComments wants a contract on every exported top-level name.
func TestExportedComments(t *testing.T) {
	sources(t, func(name string, data []byte) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "tools/") || strings.HasPrefix(name, "cmd/") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && receiverExported(d) && !standardMethod(d.Name.Name) {
					t.Errorf("%s: %s has no comment", name, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: type %s has no comment", name, ts.Name.Name)
					}
				}
			}
		}
	})
}

// standardMethod names methods whose contract is the interface's.
func standardMethod(name string) bool {
	return slices.Contains([]string{
		"Error", "Unwrap", "Is", "String", "Read", "Write", "Close", "ServeHTTP", "MarshalJSON", "UnmarshalJSON", "Len", "Less", "Swap",
		"LocalAddr", "RemoteAddr", "SetDeadline", "SetReadDeadline", "SetWriteDeadline",
	}, name)
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if idx, ok := typ.(*ast.IndexExpr); ok {
		typ = idx.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// TestStandsAlone refuses what ties the repository to one machine or studio.
func TestStandsAlone(t *testing.T) {
	bad := regexp.MustCompile(`\.\./shared|/work/(main|shared|notes|\.library)|deb\.debian\.org|registry\.npmjs|proxy\.golang\.org|203\.0\.113\.80`)
	walk(t, func(name string) bool {
		return name != ".git" && !strings.HasSuffix(name, ".sum") && !strings.HasPrefix(name, "internal/rules/") && !strings.HasSuffix(name, "package-lock.json")
	}, func(name string, data []byte) {
		if name == "internal/image/download.go" { // recipes name packages of npm, whose public registry is the default
			data = bytes.ReplaceAll(data, []byte(`"https://registry.npmjs.org/"`), nil)
		}
		if m := bad.Find(data); m != nil {
			t.Errorf("%s names %q", name, m)
		}
	})
}

// TestNoLeftovers wants no unfinished work without an owner.
func TestNoLeftovers(t *testing.T) {
	bad := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	sources(t, func(name string, data []byte) {
		if !strings.HasPrefix(name, "internal/rules/") && bad.Match(data) {
			t.Errorf("%s has an unfinished note", name)
		}
	})
}

// TestSizes holds the house style: mains of 80 lines, files of 600.
func TestSizes(t *testing.T) {
	sources(t, func(name string, data []byte) {
		limit := 600
		switch {
		case strings.HasSuffix(name, "_test.go"):
			limit = 900
		case strings.HasPrefix(name, "cmd/"):
			limit = 80
		}
		if n := bytes.Count(data, []byte("\n")); n > limit {
			t.Errorf("%s has %d lines, at most %d", name, n, limit)
		}
	})
}

// TestArchitecture keeps the page short enough to be read.
func TestArchitecture(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("\n")); n > 200 {
		t.Errorf("ARCHITECTURE.md has %d lines, at most 200", n)
	}
	for name := range allowed {
		if strings.HasPrefix(name, "tools/") || strings.HasPrefix(name, "cmd/") {
			continue
		}
		if !bytes.Contains(data, []byte("`"+name+"`")) {
			t.Errorf("ARCHITECTURE.md does not name %s", name)
		}
	}
}

// TestStateModel wants the README to say what becomes of each part of a
// workspace's state, and how to choose between one shot and workspace.
//
// 000-33, 002-41
func TestStateModel(t *testing.T) {
	state := section(t, "README.md", "What a workspace's state is")
	for _, part := range []string{"files", "processes", "terminals", "ports", "installed packages", "browser", "local databases", "caches", "services", "memory"} {
		if !strings.Contains(state, part) {
			t.Errorf("README.md does not say what becomes of %s", part)
		}
	}
	says(t, "README.md", state, "`suspend`, then `start` | `stop`, then `start`", "| memory, terminals, browser sessions, the half-typed command | kept | **lost** |")
	says(t, "README.md", section(t, "README.md", "One shot or workspace?"),
		"`warren run` when the task can be described beforehand, restarting it is cheap, and its log is all you want to read.",
		"`warren up` when the task's needs become clear while it runs, when state is costly to rebuild, or when somebody may want to look into the VM")
}

// TestPersistenceUses wants docs/retention.md to say of each way to keep a VM
// what it is for.
//
// 004-15
func TestPersistenceUses(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root(t), "docs/retention.md"))
	if err != nil {
		t.Fatal(err)
	}
	for kind, uses := range map[vm.PersistenceType][]string{
		vm.Ephemeral:  {"results are stored elsewhere", "tests", "cost"},
		vm.Sticky:     {"coding agents", "not the source of truth"},
		vm.Persistent: {"the source of truth", "production", "critical"},
	} {
		row := regexp.MustCompile("(?m)^\\| `" + string(kind) + "`[^|]*\\|[^|]{20,}\\| ?([^|]{20,})\\|$").FindSubmatch(data)
		if row == nil {
			t.Errorf("docs/retention.md does not say what %s is for", kind)
			continue
		}
		for _, use := range uses {
			if !bytes.Contains(row[1], []byte(use)) {
				t.Errorf("docs/retention.md says of %s %q, which lacks %q", kind, row[1], use)
			}
		}
	}
}

// TestDependencies wants a line of reason for each direct dependency.
func TestDependencies(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root(t), "docs/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) < 2 || strings.Contains(line, "// indirect") || !strings.Contains(fields[0], ".") || !strings.HasPrefix(fields[1], "v") {
			continue
		}
		if !bytes.Contains(page, []byte(fields[0])) {
			t.Errorf("docs/dependencies.md has no reason for %s", fields[0])
		}
	}
}

// TestAgentSize keeps the guest's program small: it is in every guest's memory.
func TestAgentSize(t *testing.T) {
	out := filepath.Join(t.TempDir(), "agent")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./cmd/warren-agent")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, msg)
	}
	st, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	const limit = 9 << 20
	if st.Size() > limit {
		t.Errorf("the agent has %d bytes, at most %d", st.Size(), limit)
	}
}
