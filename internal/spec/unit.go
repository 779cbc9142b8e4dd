// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/warren-vm/warren/vm"
)

// UnitDir is where units are written in a guest.
const UnitDir = "/etc/systemd/system"

const (
	maxUnitName   = 255
	defaultTarget = "multi-user.target"
)

// UnitName adds ".service" to a name without a dot.
func UnitName(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return name + ".service"
}

// UnitPath is the path of a unit's file.
func UnitPath(name string) string { return UnitDir + "/" + UnitName(name) }

// PatchPath is the path of the file that overrides parts of a unit.
func PatchPath(name string) string { return UnitPath(name) + ".d/50-warren.conf" }

// CheckUnit refuses a unit that systemd would refuse or misread. A patch needs only
// the name.
func CheckUnit(u vm.Unit, patch bool) error {
	if err := CheckUnitName(u.Name); err != nil {
		return err
	}
	switch {
	case !strings.HasSuffix(UnitName(u.Name), ".service"):
		return refuse("INVALID_REQUEST", u.Name, "only services are supported")
	case u.Mode != "" && u.Mode != vm.UnitService && u.Mode != vm.UnitOneshot:
		return refuse("INVALID_REQUEST", u.Name, "mode %q is neither oneshot nor service", u.Mode)
	case len(u.Exec) == 0 && !patch:
		return refuse("EXEC_EMPTY", u.Name, "no command is given")
	}
	for _, line := range u.Exec {
		if strings.TrimSpace(line) == "" {
			return refuse("EXEC_EMPTY", u.Name, "a command line is empty")
		}
		if strings.ContainsRune(line, 0) {
			return refuse("INVALID_REQUEST", u.Name, "a command line holds a NUL byte")
		}
	}
	for _, check := range []func(vm.Unit) error{checkUnitEnv, checkUnitTexts, checkUnitLists, checkUnitTimes} {
		if err := check(u); err != nil {
			return err
		}
	}
	return nil
}

// CheckUnitName refuses an invalid unit name.
func CheckUnitName(name string) error {
	switch {
	case name == "":
		return refuse("SERVICE_NAME_EMPTY", name, "a service has no name")
	case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-"):
		return refuse("SERVICE_NAME_INVALID_PREFIX", name, "a service's name does not begin with . or -")
	case len(UnitName(name)) > maxUnitName:
		return refuse("SERVICE_NAME_TOO_LONG", name[:20]+"…", "longer than %d characters", maxUnitName-len(".service"))
	case strings.ContainsFunc(name, notUnitChar):
		return refuse("SERVICE_NAME_INVALID_CHARS", name, "a service's name holds letters, digits and : _ . \\ @ - only")
	}
	return nil
}

// notUnitChar reports whether systemd forbids a character in a unit's name.
func notUnitChar(r rune) bool {
	return r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(`:_.\@-`, r))
}

func checkUnitEnv(u vm.Unit) error {
	for k, v := range u.Env {
		switch {
		case k == "":
			return refuse("ENV_KEY_EMPTY", u.Name, "a variable has no name")
		case strings.ContainsRune(k, '='):
			return refuse("ENV_KEY_CONTAINS_EQUALS", u.Name, "a variable's name holds =")
		case strings.ContainsFunc(k, unicode.IsControl) || strings.ContainsRune(v, 0):
			return refuse("INVALID_REQUEST", u.Name, "a variable holds a character that it cannot")
		}
	}
	return nil
}

func checkUnitTexts(u vm.Unit) error {
	for _, t := range []struct {
		value *string
		code  string
		what  string
	}{{u.User, "USER_EMPTY", "user"}, {u.Group, "GROUP_EMPTY", "group"}, {u.Workdir, "WORKDIR_EMPTY", "working directory"}} {
		switch {
		case t.value == nil:
		case strings.TrimSpace(*t.value) == "":
			return refuse(t.code, u.Name, "the %s is empty", t.what)
		case strings.ContainsFunc(*t.value, unicode.IsControl):
			return refuse("INVALID_REQUEST", u.Name, "the %s holds a control character", t.what)
		}
	}
	if u.Workdir != nil && !strings.HasPrefix(*u.Workdir, "/") && *u.Workdir != "~" {
		return refuse("INVALID_REQUEST", u.Name, "the working directory is not absolute")
	}
	return nil
}

func checkUnitLists(u vm.Unit) error {
	for _, l := range []struct {
		list []string
		code string
	}{
		{u.After, "AFTER_ARRAY_CONTAINS_EMPTY"},
		{u.Requires, "REQUIRES_ARRAY_CONTAINS_EMPTY"},
		{u.OnFailure, "ON_FAILURE_ARRAY_CONTAINS_EMPTY"},
		{u.WantedBy, "WANTED_BY_EMPTY"},
	} {
		for _, name := range l.list {
			if name == "" {
				return refuse(l.code, u.Name, "a name in a list is empty")
			}
			if err := CheckUnitName(name); err != nil {
				return err
			}
		}
	}
	if u.WantedBy != nil && len(u.WantedBy) == 0 {
		return refuse("WANTED_BY_EMPTY", u.Name, "wantedBy is empty")
	}
	return nil
}

const maxUnitSeconds = 366 * 24 * 3600

func checkUnitTimes(u vm.Unit) error {
	times := []*float64{u.TimeoutSec, u.WatchdogSec}
	if r := u.RestartPolicy; r != nil {
		times = append(times, r.RestartSec, r.StartLimitIntervalSec)
		if !slices.Contains([]string{"no", "on-failure", "always", "on-abnormal"}, r.Policy) {
			return refuse("INVALID_REQUEST", u.Name, "%q is no restart policy", r.Policy)
		}
		if r.StartLimitBurst != nil && *r.StartLimitBurst < 0 {
			return refuse("INVALID_REQUEST", u.Name, "startLimitBurst is negative")
		}
		if u.Oneshot() && r.Policy == "always" {
			return refuse("INVALID_REQUEST", u.Name, "a oneshot is not restarted always").WithHint("use on-failure, or mode service")
		}
	}
	for _, t := range times {
		if t != nil && (math.IsNaN(*t) || *t < 0 || *t > maxUnitSeconds) {
			return refuse("INVALID_REQUEST", u.Name, "%v seconds are out of range", *t)
		}
	}
	return nil
}

func refuse(code, subject, format string, args ...any) *vm.Error {
	e := vm.Errorf(vm.Invalid, subject, format, args...)
	return e.WithCode(code, "message", e.Msg)
}

// RenderUnit returns the file of a checked unit.
func RenderUnit(u vm.Unit) string {
	var f unitFile
	f.section("Unit")
	f.set("Description", literal(strings.TrimSuffix(u.Name, ".service")))
	f.common(u)
	f.section("Service")
	f.set("Type", unitType(u))
	if u.Notifies() {
		f.set("NotifyAccess", "all")
	}
	f.set("EnvironmentFile", "-"+vm.EnvFile) // placeholders of secrets; it wins over Environment
	f.service(u)
	switch {
	case u.RemainAfterExit != nil:
		f.set("RemainAfterExit", yesNo(*u.RemainAfterExit))
	case u.Oneshot():
		f.set("RemainAfterExit", "yes")
	}
	if u.Oneshot() && u.TimeoutSec == nil {
		f.set("TimeoutStartSec", "infinity")
	}
	f.exec(u)
	if u.Vanishes() {
		f.set("ExecStartPost", "+/bin/rm -f "+quoteAll(unitFiles(u)))
	}
	f.section("Install")
	f.set("WantedBy", strings.Join(targets(u), " "))
	return f.String()
}

// RenderPatch returns the file that overrides parts of a unit.
func RenderPatch(u vm.Unit) string {
	var f unitFile
	f.section("Unit")
	f.common(u)
	f.section("Service")
	if u.Mode != "" || u.ReadySignal != nil {
		f.set("Type", unitType(u))
	}
	if u.Notifies() {
		f.set("NotifyAccess", "all")
	}
	f.service(u)
	if u.RemainAfterExit != nil {
		f.set("RemainAfterExit", yesNo(*u.RemainAfterExit))
	}
	if len(u.Exec) > 0 {
		f.set("ExecStartPre", "") // replaces the unit's own value instead of adding to it
		f.set("ExecStart", "")
		f.exec(u)
	}
	if len(u.WantedBy) > 0 {
		f.section("Install")
		f.set("WantedBy", strings.Join(targets(u), " "))
	}
	return f.String()
}

// unitFiles are the files of a unit that are removed after its success.
func unitFiles(u vm.Unit) []string {
	name := UnitName(u.Name)
	files := []string{UnitDir + "/" + name}
	for _, t := range targets(u) {
		files = append(files, UnitDir+"/"+t+".wants/"+name)
	}
	return files
}

func targets(u vm.Unit) []string {
	if len(u.WantedBy) == 0 {
		return []string{defaultTarget}
	}
	return unitNames(u.WantedBy)
}

// unitType prefers exec to simple: then a start fails when the program is missing.
func unitType(u vm.Unit) string {
	switch {
	case u.Oneshot():
		return "oneshot"
	case u.Notifies():
		return "notify"
	}
	return "exec"
}

// unitFile is a unit file in the making.
type unitFile struct{ strings.Builder }

func (f *unitFile) section(name string) {
	if f.Len() > 0 {
		f.WriteByte('\n')
	}
	f.WriteString("[" + name + "]\n")
}

func (f *unitFile) set(key, value string) { f.WriteString(key + "=" + value + "\n") }

func (f *unitFile) names(key string, list []string) {
	if len(list) > 0 {
		f.set(key, strings.Join(unitNames(list), " "))
	}
}

// common writes the [Unit] section of both kinds of file.
func (f *unitFile) common(u vm.Unit) {
	f.names("After", u.After)
	f.names("Requires", u.Requires)
	f.names("OnFailure", u.OnFailure)
	r := u.RestartPolicy
	if r == nil {
		return
	}
	if r.StartLimitBurst != nil {
		f.set("StartLimitBurst", strconv.Itoa(*r.StartLimitBurst))
	}
	if r.StartLimitIntervalSec != nil {
		f.set("StartLimitIntervalSec", seconds(*r.StartLimitIntervalSec))
	}
}

// service writes the [Service] section of both kinds of file.
func (f *unitFile) service(u vm.Unit) {
	if u.User != nil {
		f.set("User", literal(*u.User))
	}
	if u.Group != nil {
		f.set("Group", literal(*u.Group))
	}
	if u.Workdir != nil {
		f.set("WorkingDirectory", literal(*u.Workdir))
	}
	for _, k := range slices.Sorted(maps.Keys(u.Env)) {
		f.set("Environment", quote(k+"="+u.Env[k]))
	}
	if u.TimeoutSec != nil {
		f.set("TimeoutSec", limit(*u.TimeoutSec))
	}
	if u.WatchdogSec != nil {
		f.set("WatchdogSec", seconds(*u.WatchdogSec))
	}
	if r := u.RestartPolicy; r != nil {
		f.set("Restart", r.Policy)
		if r.RestartSec != nil {
			f.set("RestartSec", seconds(*r.RestartSec))
		}
	}
}

// exec writes the command lines. A oneshot runs all in order; a service runs all
// but the last before it.
func (f *unitFile) exec(u vm.Unit) {
	for i, line := range u.Exec {
		key := "ExecStart"
		if !u.Oneshot() && i < len(u.Exec)-1 {
			key = "ExecStartPre"
		}
		f.set(key, execLine(line))
	}
}

// execLine is a command line in systemd's syntax: words, quotes and $VARIABLES
// work, % is literal. bash runs one that does not fit in a line.
func execLine(line string) string {
	line = strings.TrimSpace(line)
	if strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) || strings.HasSuffix(line, `\`) {
		return "/bin/bash -c " + strings.ReplaceAll(quote(line), "$", "$$")
	}
	return literal(line)
}

// literal keeps systemd from reading % as the start of a specifier.
func literal(s string) string { return strings.ReplaceAll(s, "%", "%%") }

func quoteAll(words []string) string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, quote(w))
	}
	return strings.Join(out, " ")
}

// quote quotes one word.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch == '%':
			b.WriteString("%%")
		case ch == '\n':
			b.WriteString(`\n`)
		case ch < ' ' || ch == 0x7f:
			b.WriteString(`\x` + hexByte(ch))
		default:
			b.WriteByte(ch)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func hexByte(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

func unitNames(list []string) []string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, UnitName(n))
	}
	return out
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', -1, 64) }

// limit is a timeout; 0 is none.
func limit(s float64) string {
	if s == 0 {
		return "infinity"
	}
	return seconds(s)
}
