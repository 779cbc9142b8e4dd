// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

const (
	maxStatus   = 32 << 20 // bytes of dpkg's list of packages
	maxPackages = 100_000
	maxAccounts = 1 << 20 // bytes of passwd and its like
	maxUnit     = 256 << 10
	maxSystem   = 2000 // changes that are listed
	maxWords    = 200  // bytes of a value that is shown
)

// parseStatus reads dpkg's list of installed packages: versions by name, with the
// architecture where a name has several.
func parseStatus(text []byte) map[string]string {
	out := map[string]string{}
	var name, version, arch, status string
	flush := func() {
		if name != "" && strings.HasSuffix(status, " installed") && len(out) < maxPackages {
			if _, twice := out[name]; twice {
				name += ":" + arch
			}
			out[name] = version
		}
		name, version, arch, status = "", "", "", ""
	}
	for line := range bytes.Lines(text) {
		key, value, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch {
		case len(bytes.TrimSpace(line)) == 0:
			flush()
		case !ok || line[0] == ' ':
		case string(key) == "Package":
			name = words(value)
		case string(key) == "Version":
			version = words(value)
		case string(key) == "Architecture":
			arch = words(value)
		case string(key) == "Status":
			status = words(value)
		}
	}
	flush()
	return out
}

// words is a value as it is shown: short, and escaped if it is odd.
func words[T string | []byte](v T) string {
	s := strings.TrimSpace(string(v))
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return safe(s)
}

// safe is a text of the guest as it may be shown.
func safe(s string) string { return vm.GuestPath(s).String() }

// differ lists what two maps have differently.
func (r *report) differ(kind string, was, now map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		v, there := now[name]
		switch {
		case !there:
			r.system(vm.SystemChange{Kind: kind, Verb: vm.FileDeleted, Name: name, Was: was[name]})
		case v != was[name]:
			r.system(vm.SystemChange{Kind: kind, Verb: vm.FileModified, Name: name, Was: was[name], Now: v})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, there := was[name]; !there {
			r.system(vm.SystemChange{Kind: kind, Verb: vm.FileAdded, Name: name, Now: now[name]})
		}
	}
}

func (r *report) system(c vm.SystemChange) {
	if len(r.out.System) < maxSystem {
		r.out.System = append(r.out.System, c)
		return
	}
	r.notCompared("more than 2000 differences of packages, units, users and cron jobs: the rest is not listed")
}

// both reads a file of both sides.
func (r *report) both(p string, most int64) (was, now []byte, err error) {
	if was, err = r.was.readPath(p, most); err != nil {
		return nil, nil, err
	}
	now, err = r.now.readPath(p, most)
	return was, now, err
}

// changed reports whether a path is among the changes.
func (r *report) changed(p string) bool {
	_, ok := slices.BinarySearchFunc(r.all, p, func(c Change, p string) int { return cmp.Compare(c.Path, p) })
	return ok
}

// packages compares the packages of dpkg, and notes which files belong to those that
// differ.
func (r *report) packages() error {
	const list = "/var/lib/dpkg/status"
	if !r.changed(list) {
		return nil
	}
	a, b, err := r.both(list, maxStatus)
	if err != nil {
		return err
	}
	was, now := parseStatus(a), parseStatus(b)
	r.differ("package", was, now)
	changes := map[string]bool{}
	for i := range r.items {
		changes[r.items[i].Path] = true
	}
	for _, x := range []struct {
		t           *tree
		mine, other map[string]string
	}{{r.was, was, now}, {r.now, now, was}} {
		for name, version := range x.mine {
			if v, there := x.other[name]; there && v == version {
				continue
			}
			if err := r.packageFiles(x.t, name, changes); err != nil {
				return err
			}
		}
	}
	return nil
}

// packageFiles marks the changed files that a package's list names.
func (r *report) packageFiles(t *tree, name string, changes map[string]bool) error {
	var text []byte
	for _, file := range []string{name, name + ":amd64", name + ":arm64"} {
		if !strings.ContainsAny(file, "/\"") && (r.changed("/var/lib/dpkg/info/"+file+".list") || t == r.was) {
			var err error
			if text, err = t.readPath("/var/lib/dpkg/info/"+file+".list", maxStatus); err != nil {
				return err
			}
		}
		if text != nil {
			break
		}
	}
	for line := range bytes.Lines(text) {
		p := string(bytes.TrimRight(line, "\n"))
		for _, p := range []string{p, "/usr" + p} { // lists name /bin/x, which is a link's place
			if changes[p] {
				r.packaged[p] = true
			}
		}
	}
	return nil
}

var distInfo = regexp.MustCompile(`^([A-Za-z0-9._]+)-([^-]+)\.(?:dist|egg)-info$`)

// languagePackages compares what pip and npm installed for the whole machine.
func (r *report) languagePackages() error {
	pip := [2]map[string]string{{}, {}}
	npm := [2]map[string]string{{}, {}}
	for i := range r.items {
		it := &r.items[i]
		if !isDir(it.inode()) {
			continue
		}
		dir, base := path.Split(it.Path)
		switch {
		case below(it.Path, "/work") || it.group == Project:
		case strings.HasSuffix(dir, "/dist-packages/") || strings.HasSuffix(dir, "/site-packages/"):
			if m := distInfo.FindStringSubmatch(base); m != nil && !r.packaged[it.Path] {
				name := "pip " + words(strings.ReplaceAll(strings.ToLower(m[1]), "_", "-"))
				if it.Was != nil {
					pip[0][name] = words(m[2])
				}
				if it.Now != nil {
					pip[1][name] = words(m[2])
				}
			}
		case strings.HasSuffix(dir, "/lib/node_modules/") && base[0] != '@' && base[0] != '.', strings.Contains(dir, "/lib/node_modules/@") && strings.Count(dir[strings.LastIndex(dir, "/lib/node_modules/@"):], "/") == 4:
			if strings.Count(it.Path, "/node_modules/") == 1 {
				if err := r.npmPackage(it, npm); err != nil {
					return err
				}
			}
		}
	}
	r.differ("package", pip[0], pip[1])
	r.differ("package", npm[0], npm[1])
	return nil
}

func (r *report) npmPackage(it *item, npm [2]map[string]string) error {
	_, name, _ := strings.Cut(it.Path, "/lib/node_modules/")
	for i, t := range []*tree{r.was, r.now} {
		text, err := t.readPath(it.Path+"/package.json", maxUnit)
		if err != nil {
			return err
		}
		var p struct {
			Version string `json:"version"`
		}
		if text != nil && json.Unmarshal(text, &p) == nil {
			npm[i]["npm "+words(name)] = words(p.Version)
		}
	}
	return nil
}

// accounts compares users and groups.
func (r *report) accounts() error {
	if r.changed("/etc/passwd") {
		was, now, err := r.both("/etc/passwd", maxAccounts)
		if err != nil {
			return err
		}
		r.differ("user", parseAccounts(was, 7), parseAccounts(now, 7))
	}
	if r.changed("/etc/group") {
		was, now, err := r.both("/etc/group", maxAccounts)
		if err != nil {
			return err
		}
		r.differ("group", parseAccounts(was, 4), parseAccounts(now, 4))
	}
	if r.changed("/etc/shadow") {
		was, now, err := r.both("/etc/shadow", maxAccounts)
		if err != nil {
			return err
		}
		a, b := parseShadow(was), parseShadow(now)
		for _, name := range slices.Sorted(maps.Keys(b)) {
			if old, there := a[name]; there && old != b[name] || !there && strings.HasPrefix(b[name], "$") {
				r.system(vm.SystemChange{Kind: "user", Verb: vm.FileModified, Name: words(name), Now: passwordWords(b[name])})
			}
		}
	}
	return nil
}

// passwordWords says what a field of shadow means, without it.
func passwordWords(field string) string {
	switch {
	case field == "":
		return "needs no password now"
	case strings.HasPrefix(field, "!"), strings.HasPrefix(field, "*"):
		return "has no password now"
	}
	return "has a new password"
}

// parseAccounts reads passwd (7 fields) or group (4) by name, in words.
func parseAccounts(text []byte, fields int) map[string]string {
	out := map[string]string{}
	for line := range bytes.Lines(text) {
		f := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(f) != fields || f[0] == "" || len(out) >= maxPackages {
			continue
		}
		if fields == 7 {
			out[words(f[0])] = words("uid " + f[2] + ", gid " + f[3] + ", " + f[5] + ", " + f[6])
		} else if f[3] == "" {
			out[words(f[0])] = words("gid " + f[2])
		} else {
			out[words(f[0])] = words("gid " + f[2] + ", members " + f[3])
		}
	}
	return out
}

func parseShadow(text []byte) map[string]string {
	out := map[string]string{}
	for line := range bytes.Lines(text) {
		if f := strings.SplitN(string(line), ":", 3); len(f) == 3 && len(out) < maxPackages {
			out[f[0]] = f[1]
		}
	}
	return out
}

var unitSuffixes = []string{".service", ".timer", ".socket", ".path", ".mount", ".automount", ".target", ".slice"}

// units compares systemd's units by the files and links that changed.
func (r *report) units() error {
	for i := range r.items {
		it := &r.items[i]
		dir, base := path.Split(it.Path)
		dir = strings.TrimSuffix(dir, "/")
		if !slices.Contains(unitSuffixes, path.Ext(base)) || isDir(it.inode()) {
			continue
		}
		where := ""
		for _, d := range []string{"/etc/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/user", "/usr/lib/systemd/user", "/usr/local/lib/systemd/system"} {
			if below(dir, d) {
				where = d
			}
		}
		if n := strings.Index(dir, "/.config/systemd/user"); n >= 0 {
			where = dir[:n] + "/.config/systemd/user"
		}
		if where == "" {
			continue
		}
		if err := r.unit(it, base, strings.TrimPrefix(strings.TrimPrefix(dir, where), "/")); err != nil {
			return err
		}
	}
	return nil
}

// unit says what one changed file means for a unit. sub is the directory below that
// of the units: x.target.wants and the like.
func (r *report) unit(it *item, base, sub string) error {
	c := vm.SystemChange{Kind: "unit", Verb: vm.ChangeVerb(it.Verb), Name: words(base)}
	switch {
	case strings.HasSuffix(sub, ".wants") || strings.HasSuffix(sub, ".requires"):
		c.Verb, c.Now = vm.FileModified, words("enabled for "+strings.TrimSuffix(strings.TrimSuffix(sub, ".wants"), ".requires"))
		if it.Verb == Deleted {
			c.Now = words("no longer " + c.Now)
		}
	case sub != "":
		return nil // a drop-in has the suffix .conf
	case it.Now != nil && it.Now.Type == ext4.Symlink:
		target, err := r.now.fs.Target(it.Now)
		if err != nil {
			return err
		}
		c.Now = words("leads to " + target)
		if target == "/dev/null" {
			c.Now = "masked: systemd does not start it"
		}
	case it.Now != nil:
		text, err := r.now.read(it.Now, maxUnit)
		if err != nil {
			return err
		}
		c.Now = unitWords(text)
	}
	r.system(c)
	return nil
}

// unitWords is what a unit does, in a line.
func unitWords(text []byte) string {
	for line := range bytes.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(string(line)), "=")
		switch key {
		case "ExecStart", "ListenStream", "ListenDatagram", "OnCalendar", "OnBootSec", "OnUnitActiveSec", "PathExists", "PathChanged", "What":
			if ok {
				return words(key + "=" + mask1(value))
			}
		}
	}
	return ""
}

// mask1 masks the secrets of one line.
func mask1(line string) string {
	found, _ := findSecrets("", []byte(line))
	return string(masksOf([]byte(line), found).apply(1, []byte(line)))
}

// cron compares the lines of crontabs; scripts in cron.daily and the like are named.
func (r *report) cron() error {
	for i := range r.items {
		it := &r.items[i]
		if isDir(it.inode()) || path.Base(it.Path) == ".placeholder" {
			continue
		}
		switch dir := path.Dir(it.Path); {
		case it.Path == "/etc/crontab", dir == "/etc/cron.d", dir == "/var/spool/cron/crontabs", dir == "/var/spool/cron":
			if err := r.cronLines(it); err != nil {
				return err
			}
		case strings.HasPrefix(dir, "/etc/cron."), strings.HasPrefix(dir, "/var/spool/cron/at"):
			if path.Base(it.Path) != ".SEQ" {
				r.system(vm.SystemChange{Kind: "cron", Verb: vm.ChangeVerb(it.Verb), Name: words(it.Path)})
			}
		}
	}
	return nil
}

func (r *report) cronLines(it *item) error {
	was, err := r.was.read(it.Was, maxUnit)
	if err != nil {
		return err
	}
	now, err := r.now.read(it.Now, maxUnit)
	if err != nil {
		return err
	}
	a, b := jobs(was), jobs(now)
	for _, line := range a {
		if !slices.Contains(b, line) {
			r.system(vm.SystemChange{Kind: "cron", Verb: vm.FileDeleted, Name: words(it.Path), Was: line})
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			r.system(vm.SystemChange{Kind: "cron", Verb: vm.FileAdded, Name: words(it.Path), Now: line})
		}
	}
	return nil
}

// jobs are the lines of a crontab that do something.
func jobs(text []byte) (list []string) {
	for line := range bytes.Lines(text) {
		if s := strings.TrimSpace(string(line)); s != "" && s[0] != '#' && len(list) < maxSystem {
			list = append(list, words(mask1(s)))
		}
	}
	return list
}
