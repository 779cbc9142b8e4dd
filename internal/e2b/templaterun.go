// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// A build carries out its steps in a VM of their own, made of the image or the template that
// it starts from. A snapshot of that VM, with its memory, is the template: the start command
// runs already in each sandbox that is made of it.

// Kinds of steps.
const (
	stepCopy    = "COPY"
	stepRun     = "RUN"
	stepEnv     = "ENV"
	stepWorkdir = "WORKDIR"
	stepUser    = "USER"
)

const (
	readyTime  = 5 * time.Minute  // until the ready command succeeds
	readyEvery = time.Second / 4  // between two of its runs
	startGrace = 20 * time.Second // of a start command without a ready command
	dropTime   = time.Minute      // to remove the VM of a build
)

// buildPlan is what a client wants to have built.
type buildPlan struct {
	Image    string          `json:"fromImage"`
	Template string          `json:"fromTemplate"`
	Registry json.RawMessage `json:"fromImageRegistry"`
	Steps    []buildStep     `json:"steps"`
	Start    string          `json:"startCmd"`
	Ready    string          `json:"readyCmd"`
}

type buildStep struct {
	Type  string   `json:"type"`
	Args  []string `json:"args"`
	Files string   `json:"filesHash"`
}

// arg is an argument; "" if it is not there.
func (s buildStep) arg(i int) string {
	if i < len(s.Args) {
		return s.Args[i]
	}
	return ""
}

// String is the step as a log shows it.
func (s buildStep) String() string {
	args := s.Args
	if s.Type == stepEnv { // a value may be a secret
		args = nil
		for i := 0; i < len(s.Args); i += 2 {
			args = append(args, s.Args[i])
		}
	}
	return vm.Clip(strings.TrimSpace(s.Type+" "+strings.Join(args, " ")), 200)
}

var (
	linuxName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	ownerName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,31})?$`)
	fileMode  = regexp.MustCompile(`^[0-7]{3,4}$`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check refuses a plan that cannot be carried out.
func (p *buildPlan) check() error {
	switch {
	case (p.Image == "") == (p.Template == ""):
		return invalid("from", "a template starts from an image or from a template, and from one only")
	case set(p.Registry):
		return vm.Errorf(vm.Unsupported, "fromImageRegistry", "credentials of a registry are not taken here").
			WithHint("import the image on the server: `warren image import oci:%s --user USER`", vm.Clip(p.Image, 100))
	case len(p.Steps) > maxSteps:
		return vm.Errorf(vm.Limit, "steps", "a template has at most %d steps", maxSteps)
	}
	for i, s := range p.Steps {
		if why := s.wrong(); why != "" {
			return invalid("steps", "step %d, %s: %s", i+1, vm.Clip(s.Type, 20), why)
		}
	}
	return nil
}

// wrong says why a step cannot be carried out; "" = it can.
func (s buildStep) wrong() string {
	for _, a := range s.Args {
		if strings.ContainsRune(a, 0) {
			return "an argument has a NUL byte"
		}
	}
	switch s.Type {
	case stepCopy:
		switch _, err := relative(s.arg(0)); {
		case len(s.Args) < 2 || s.Args[0] == "" || s.Args[1] == "":
			return "source or destination is missing"
		case err != nil:
			return "the source is outside of the directory"
		case !fileHash.MatchString(s.Files):
			return "it does not name its files"
		case s.arg(2) != "" && !ownerName.MatchString(s.arg(2)):
			return "the owner is no name of a Linux user"
		case s.arg(3) != "" && !fileMode.MatchString(s.arg(3)):
			return "the mode is no octal number"
		}
	case stepRun:
		if s.arg(0) == "" {
			return "the command is missing"
		}
		if s.arg(1) != "" && !linuxName.MatchString(s.arg(1)) {
			return "the user is no name of a Linux user"
		}
	case stepEnv:
		for i := 0; i < len(s.Args); i += 2 {
			if !variable.MatchString(s.Args[i]) {
				return "a variable has no proper name"
			}
		}
		if len(s.Args) == 0 || len(s.Args)%2 != 0 {
			return "a variable has no value"
		}
	case stepWorkdir:
		if s.arg(0) == "" {
			return "the directory is missing"
		}
	case stepUser:
		if !linuxName.MatchString(s.arg(0)) {
			return "the user is no name of a Linux user"
		}
	default:
		return "there is no such step"
	}
	return ""
}

// stepper carries out the steps of a build.
type stepper struct {
	d    *Door
	b    *build
	ctx  context.Context
	call *vm.Call
	rec  vm.VM
	sh   string // the shell of commands

	step string // that is carried out
	def  vm.SandboxDefaults
	home string // of the current user
}

// build makes a template. It returns the step that failed.
func (d *Door) build(ctx context.Context, b *build, plan *buildPlan, call *vm.Call) (step string, err error) {
	s := &stepper{d: d, b: b, ctx: ctx, call: call, step: stepBase, def: vm.SandboxDefaults{Env: map[string]string{}, User: defaultUser}}
	defer func() {
		if s.rec.ID == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
		defer cancel()
		if _, derr := d.Engine.Delete(ctx, call, string(s.rec.ID)); derr != nil && vm.KindOf(derr) != vm.NotFound {
			d.Log.Warn("the VM of a build of a template was not removed: its time-out ends it", "vm", s.rec.ID, "err", derr)
		}
		d.forget(s.rec.ID)
	}()
	if err := s.base(plan); err != nil {
		return s.step, err
	}
	for i, one := range plan.Steps {
		s.step = itoa(i + 1)
		s.say("info", "["+s.step+"/"+itoa(len(plan.Steps))+"] "+one.String())
		if err := s.carryOut(one); err != nil {
			return s.step, err
		}
	}
	s.step = stepFinalize
	if err := s.start(plan); err != nil {
		return s.step, err
	}
	return s.step, s.publish()
}

// debian are the tags of the container image whose distribution is that of Warren's base.
var debian = []string{"latest", "stable", "stable-slim", "12", "12-slim", "bookworm", "bookworm-slim"}

// from finds what a build starts from. A container image is one that the server's operator
// has imported, or one of the names for Warren's own.
func (s *stepper) from(plan *buildPlan) (origin, error) {
	if plan.Template != "" {
		return s.d.origin(s.ctx, s.call, plan.Template)
	}
	name := containerName(plan.Image)
	repo, tag, _ := strings.Cut(name, ":")
	switch repo {
	case "e2bdev/base":
		return origin{ref: "base"}, nil
	case "e2bdev/code-interpreter":
		return origin{ref: s.d.image(s.ctx, s.call, "code-interpreter-v1")}, nil
	}
	images, err := s.d.Engine.Images(s.ctx, s.call)
	if err != nil {
		return origin{}, err
	}
	for _, img := range slices.Backward(images) {
		if img.Name == plan.Image || img.Container != nil && containerName(strings.TrimPrefix(img.Container.Source, "oci:")) == name {
			return origin{ref: string(img.ID)}, nil
		}
	}
	if repo == "debian" && slices.Contains(debian, tag) {
		return origin{ref: "base"}, nil
	}
	return origin{}, vm.Errorf(vm.NotFound, vm.Clip(plan.Image, 100), "this server has not imported the container image").
		WithHint("on the server run `warren image import oci:%s`, or start from an image of `warren image ls`", vm.Clip(plan.Image, 100))
}

// containerName is the name of a container image with its tag, in its shortest form.
func containerName(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "docker.io/"), "library/")
	if !strings.Contains(name, "@") && !strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		name += ":latest"
	}
	return name
}

func (s *stepper) say(level, text string) { s.b.say(level, s.step, text) }

// base makes the VM of the build. It reaches the internet, as programs for E2B expect.
func (s *stepper) base(plan *buildPlan) error {
	from, err := s.from(plan)
	if err != nil {
		return err
	}
	if from.defaults != nil {
		s.def = *from.defaults.Clone()
		s.def.User = cmp.Or(s.def.User, defaultUser)
		if s.def.Env == nil {
			s.def.Env = map[string]string{}
		}
	}
	s.say("info", "starting from "+vm.Clip(cmp.Or(plan.Template, plan.Image), 100))
	sb := &vm.Sandbox{
		Template: from.ref, Builds: s.b.name, By: s.call.Actor.Key, Timeout: vm.Seconds(buildTime), EndsAt: time.Now().Add(buildTime + dropTime), OnEnd: vm.OpDelete,
	}
	in := engine.CreateRequest{
		Image: from.ref, Sandbox: sb, DisplayName: "build of the template " + s.b.name, Size: vm.Size{VCPU: s.b.cpus, MemoryMiB: s.b.memory},
		Network: vm.NetworkRequest{Mode: vm.NetOpen}.Spec(), IdleTimeout: vm.Optional[vm.Seconds]{Set: true, Null: true},
	}
	if img, err := s.d.Engine.FindImage(s.ctx, s.call, from.ref); err == nil && s.b.free > 0 {
		in.Size.DiskMiB = min(vm.MaxDiskMiB, max(vm.DefaultSize.DiskMiB, img.DiskMiB+s.b.free))
	}
	s.rec, err = s.d.Engine.Create(s.ctx, s.call, in)
	if vm.KindOf(err) == vm.NotFound {
		return vm.Errorf(vm.NotFound, vm.Clip(cmp.Or(plan.Template, plan.Image), 100), "no such image or template").WithHint("`warren image ls` lists images")
	}
	if err != nil {
		return err
	}
	if err := s.d.setUp(s.ctx, s.call, s.rec); err != nil {
		return err
	}
	s.sh = "/bin/sh"
	if _, err := s.d.Inside.Stat(s.ctx, s.call, string(s.rec.ID), "", "/bin/bash"); err == nil {
		s.sh = "/bin/bash"
	}
	return s.as(s.def.User)
}

// as makes a Linux user the one of the further steps.
func (s *stepper) as(name string) error {
	u, err := s.d.Inside.LinuxUser(s.ctx, s.call, string(s.rec.ID), name)
	if err != nil {
		return err
	}
	s.def.User, s.home = name, u.Home
	return nil
}

// cwd is the directory of the further steps.
func (s *stepper) cwd() string { return cmp.Or(s.def.Workdir, s.home) }

// absolute makes a path of a step absolute. A slash at its end stays.
func (s *stepper) absolute(p string) string {
	out := p
	if p == "~" || strings.HasPrefix(p, "~/") {
		out = s.home + p[1:]
	}
	if !path.IsAbs(out) {
		out = path.Join(s.cwd(), out)
	}
	out = path.Clean(out)
	if strings.HasSuffix(p, "/") && out != "/" {
		out += "/"
	}
	return out
}

func (s *stepper) carryOut(one buildStep) error {
	if err := s.d.Access.Valid(s.call.Actor); err != nil { // the key may have been revoked
		return err
	}
	switch one.Type {
	case stepRun:
		return s.run(one.arg(0), cmp.Or(one.arg(1), s.def.User))
	case stepEnv:
		return s.setEnv(one.Args)
	case stepWorkdir:
		dir := strings.TrimSuffix(s.absolute(one.arg(0)), "/")
		s.def.Workdir = cmp.Or(dir, "/")
		return s.root(makeWorkdir, map[string]string{"dir": s.def.Workdir, "owner": s.def.User})
	case stepUser:
		if name := one.arg(0); name != "root" {
			if err := s.root(addUser, map[string]string{"name": name}); err != nil {
				return err
			}
		}
		return s.as(one.arg(0))
	}
	return s.copy(one)
}

// makeWorkdir makes a directory, and gives it to its user if it is new.
const makeWorkdir = `[ -d "$dir" ] || { mkdir -p "$dir" && chown "$owner" "$dir"; }`

// setEnv sets variables. A value may name others, such as $PATH.
func (s *stepper) setEnv(args []string) error {
	next := maps.Clone(s.def.Env)
	for i := 0; i+1 < len(args); i += 2 {
		value := args[i+1]
		if strings.Contains(value, "$") {
			var out bytes.Buffer
			quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$(", `\$(`).Replace(value)
			if err := s.exec(s.spec(`printf '%s' "`+quoted+`"`, s.def.User), limitedBuffer{&out}); err != nil {
				return err
			}
			value = out.String()
		}
		next[args[i]] = value
	}
	bytes := 0
	for k, v := range next {
		bytes += len(k) + len(v)
	}
	if bytes > vm.MaxSandboxBytes/2 {
		return vm.Errorf(vm.Limit, "", "the variables of a template have at most %d bytes", vm.MaxSandboxBytes/2)
	}
	s.def.Env = next
	return nil
}

// limitedBuffer keeps the beginning of what is written.
type limitedBuffer struct{ b *bytes.Buffer }

func (l limitedBuffer) Write(p []byte) (int, error) {
	if room := vm.MaxSandboxBytes - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// spec is a command of a user in the shell that reads the user's profile, as E2B's do.
func (s *stepper) spec(command, user string) vm.ExecSpec {
	return vm.ExecSpec{Argv: []string{s.sh, "-l", "-c", command}, User: user, Cwd: s.cwd(), Env: s.environment()}
}

func (s *stepper) environment() map[string]string {
	env := map[string]string{"E2B_SANDBOX": "true", "E2B_TEMPLATE_ID": s.b.template}
	maps.Copy(env, s.def.Env)
	return env
}

// run carries out a command, whose output goes to the log.
func (s *stepper) run(command, user string) error {
	lines := &lineLog{say: func(text string) { s.say("info", text) }}
	err := s.exec(s.spec(command, user), lines)
	lines.flush()
	if err != nil && lines.last != "" && vm.KindOf(err) == vm.GuestFault {
		return vm.Errorf(vm.GuestFault, "", "%s: %s", vm.AsError(err).Msg, vm.Clip(lines.last, 500))
	}
	return err
}

// root runs a script of Warren's own as root. Its variables are its arguments.
func (s *stepper) root(script string, args map[string]string) error {
	var out strings.Builder
	err := s.exec(vm.ExecSpec{Argv: []string{"/bin/sh", "-c", script}, User: "root", Cwd: "/", Env: args}, limited{&out})
	if err != nil && out.Len() > 0 {
		return vm.Errorf(vm.KindOf(err), "", "%s: %s", vm.AsError(err).Msg, vm.Clip(strings.TrimSpace(out.String()), 500))
	}
	return err
}

// exec runs a command to its end. Kind GuestFault when it failed.
func (s *stepper) exec(spec vm.ExecSpec, out io.Writer) error {
	if until, ok := s.ctx.Deadline(); ok {
		spec.Timeout = vm.Millis(max(time.Until(until), time.Second))
	}
	x, err := s.d.Inside.Exec(s.ctx, s.call, string(s.rec.ID), spec)
	if err != nil {
		return err
	}
	st, err := x.Run(out, out)
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case err != nil:
		return err
	case st.Signal != "":
		return vm.Errorf(vm.GuestFault, "", "the command was ended by the signal %s", st.Signal)
	case st.Code != 0:
		return vm.Errorf(vm.GuestFault, "", "the command failed with exit status %d", st.Code)
	}
	return nil
}

// lineLog passes on whole lines. Both outputs of a command may write to it.
type lineLog struct {
	say  func(string)
	rest []byte
	last string // line that is not empty
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			if len(l.rest) > maxLogLine {
				l.flush()
			}
			return len(p), nil
		}
		l.line(string(l.rest[:i]))
		l.rest = l.rest[i+1:]
	}
}

func (l *lineLog) line(text string) {
	if i := strings.LastIndexByte(strings.TrimRight(text, "\r"), '\r'); i >= 0 { // a progress bar
		text = text[i+1:]
	}
	if text = strings.TrimRight(text, "\r "); text != "" {
		l.last = text
		l.say(text)
	}
}

func (l *lineLog) flush() {
	l.line(string(l.rest))
	l.rest = nil
}
