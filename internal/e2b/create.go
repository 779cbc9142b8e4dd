// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

type createBody struct {
	Template   string            `json:"templateID"`
	Timeout    *int64            `json:"timeout"`
	Metadata   map[string]string `json:"metadata"`
	Env        map[string]string `json:"envVars"`
	Internet   *bool             `json:"allow_internet_access"`
	AutoPause  bool              `json:"autoPause"`
	Memory     *bool             `json:"autoPauseMemory"`
	AutoResume *struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	Network *networkRules   `json:"network"`
	Volumes []any           `json:"volumeMounts"`
	IAM     json.RawMessage `json:"iam"`
}

// sandbox makes the record's part of a request.
func (b *createBody) sandbox(by vm.KeyID, byDefault int64, now time.Time) (*vm.Sandbox, error) {
	timeout := byDefault
	if b.Timeout != nil {
		timeout = *b.Timeout
	}
	if timeout <= 0 || timeout > int64(vm.MaxDuration/time.Second) {
		return nil, invalid("timeout", "%d is not a time-out in seconds", timeout)
	}
	s := &vm.Sandbox{
		Template: b.Template, Env: b.Env, Metadata: b.Metadata, By: by,
		Timeout: vm.Seconds(time.Duration(timeout) * time.Second), EndsAt: now.Add(time.Duration(timeout) * time.Second), OnEnd: vm.OpDelete,
		AutoResume: b.AutoResume != nil && b.AutoResume.Enabled,
	}
	cold := b.Memory != nil && !*b.Memory
	switch {
	case cold && s.AutoResume:
		return nil, invalid("autoPauseMemory", "a sandbox that resumes by itself keeps its memory").WithHint("leave autoPauseMemory out, or autoResume")
	case b.AutoPause && cold:
		s.OnEnd = vm.OpStop
	case b.AutoPause:
		s.OnEnd = vm.OpSuspend
	}
	if len(b.Volumes) > 0 {
		return nil, invalid("volumeMounts", "volumes of E2B are not supported").WithHint("use `warren volume`")
	}
	if len(b.IAM) > 0 && string(b.IAM) != "null" {
		return nil, invalid("iam", "tokens of E2B's IAM are not supported").WithHint("use `warren secret`")
	}
	return s, b.Network.apply(s, b.Internet)
}

// ref is the image or snapshot that a template's name means.
func ref(template string) string {
	name, _, _ := strings.Cut(template, ":")
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	return name
}

// interpreters are the images for the code interpreter, the best first.
var interpreters = []string{"python-interpreter", "python", "base"}

// image is ref; the template of the code interpreter means the best image for it.
func (d *Door) image(ctx context.Context, call *vm.Call, template string) string {
	name := ref(template)
	if name != "code-interpreter-v1" {
		return name
	}
	for _, image := range interpreters {
		if _, err := d.Engine.FindImage(ctx, call, image); err == nil {
			return image
		}
	}
	return name
}

func (c *caller) create(byDefault int64) error {
	var in createBody
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Template == "" {
		in.Template = "base"
	}
	sb, err := in.sandbox(c.call.Actor.Key, byDefault, time.Now())
	if err != nil {
		return err
	}
	from, err := c.d.origin(c.Context(), c.call, in.Template)
	var rec vm.VM
	if err == nil {
		sb.Defaults = from.defaults.Clone()
		rec, err = c.d.Engine.Create(c.Context(), c.call, engine.CreateRequest{
			Image: from.ref, Sandbox: sb, Network: c.d.networkOf(sb), IdleTimeout: vm.Optional[vm.Seconds]{Set: true, Null: true},
		})
	}
	if vm.KindOf(err) == vm.NotFound {
		return invalid(vm.Clip(in.Template, 64), "no such template").WithHint("`warren image ls` lists images, which are the templates")
	}
	if err != nil {
		return err
	}
	if !from.known {
		err = c.d.setUp(c.Context(), c.call, rec)
	}
	if err != nil {
		_, _ = c.d.Engine.Delete(context.WithoutCancel(c.Context()), c.call, string(rec.ID)) // else its time-out ends it
		return err
	}
	c.d.forgetGone()
	return c.send(http.StatusCreated, c.made(rec))
}

// addUser makes the Linux user $name, unless it is there, and lets it use sudo.
const addUser = `set -e
may=y there=
[ ! -d /etc/sudoers.d ] || [ -f "/etc/sudoers.d/$name" ] || grep -q "^sudo:.*[:,]$name\(,\|\$\)" /etc/group || may=
if grep -q "^$name:" /etc/passwd; then
    there=$may
else
    id=1000; while grep -q "^[^:]*:[^:]*:$id:" /etc/passwd /etc/group; do id=$((id+1)); done
    sh=/bin/sh; [ -x /bin/bash ] && sh=/bin/bash
    echo "$name:x:$id:$id::/home/$name:$sh" >> /etc/passwd
    echo "$name:x:$id:" >> /etc/group
    [ ! -f /etc/shadow ] || echo "$name:*:20000:0:99999:7:::" >> /etc/shadow
    mkdir -p "/home/$name"
    [ ! -d /etc/skel ] || cp -R /etc/skel/. "/home/$name/"
    chown -R "$id:$id" "/home/$name"
fi
[ -n "$may" ] || { echo "$name ALL=(ALL) NOPASSWD: ALL" > "/etc/sudoers.d/$name"; chmod 440 "/etc/sudoers.d/$name"; }
`

// giveWorkspace follows addUser, and gives the user the image's empty /workspace, unless it may write
// there: OpenAI's Agents SDK works in that directory, which it makes in E2B.
const giveWorkspace = `work=
if [ -d /workspace ] && [ "$(stat -c %u /workspace)" = 0 ] && [ -z "$(ls -A /workspace)" ] && [ "$(stat -c %G%A /workspace)" != "${name}drwxrwxr-x" ]; then
    chown "$(grep "^$name:" /etc/passwd | cut -d: -f3,4)" /workspace
    work=' workspace'
fi
[ -z "$there" ] || echo "there$work"
`

// madeUser is the Linux user that an image has.
type madeUser struct {
	vm.LinuxUser
	workspace bool // whether each sandbox of the image gives /workspace to it
}

// setUp gives a new sandbox the Linux user that SDKs expect, if its image lacks it.
func (d *Door) setUp(ctx context.Context, call *vm.Call, rec vm.VM) error {
	ref := string(rec.ID)
	// The cache is about images. A snapshot of a VM may have what its image lacks, and lack what it has.
	fromImage := rec.DiskOn == "" && rec.Parent == ""
	if known, ok := d.withUser.Load(rec.Image); ok && fromImage {
		u := known.(madeUser)
		d.remember(rec.ID, u.LinuxUser)
		if u.workspace {
			return d.Inside.SetAttr(ctx, call, ref, "", "/workspace", vm.FileAttr{UID: &u.UID, GID: &u.GID})
		}
		return nil
	}
	x, err := d.Inside.Exec(ctx, call, ref, vm.ExecSpec{Argv: []string{"/bin/sh", "-c", addUser + giveWorkspace}, User: "root", Env: map[string]string{"name": defaultUser}, Cwd: "/", Timeout: vm.Millis(time.Minute)})
	if err != nil {
		return err
	}
	var out strings.Builder
	st, err := x.Run(limited{&out}, limited{&out})
	if err == nil && st.Code != 0 {
		err = vm.Errorf(vm.GuestFault, ref, "the Linux user of the sandbox could not be made: %s", vm.Clip(out.String(), 500))
	}
	if err != nil || !fromImage || !strings.HasPrefix(out.String(), "there") {
		return err
	}
	u, err := d.Inside.LinuxUser(ctx, call, ref, defaultUser)
	if err != nil {
		return err
	}
	d.remember(rec.ID, u)
	d.withUser.Store(rec.Image, madeUser{u, out.String() == "there workspace\n"})
	return nil
}

// remember keeps what is known of the user of a new sandbox.
func (d *Door) remember(id vm.ID, u vm.LinuxUser) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.homes) < maxHomes {
		d.homes[homeKey{id, defaultUser}] = u
	}
}

// limited keeps the beginning of a command's output.
type limited struct{ b *strings.Builder }

func (l limited) Write(p []byte) (int, error) {
	if room := 4096 - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

type connectBody struct {
	Timeout *int64 `json:"timeout"`
	Memory  *bool  `json:"memory"`
}

// connect gives a client the token of a sandbox, and resumes the sandbox.
func (c *caller) connect(byDefault int64) error {
	var in connectBody
	if err := c.decode(&in); err != nil {
		return err
	}
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	timeout := byDefault
	if in.Timeout != nil {
		timeout = *in.Timeout
	}
	if timeout <= 0 || timeout > int64(vm.MaxDuration/time.Second) {
		return invalid("timeout", "%d is not a time-out in seconds", timeout)
	}
	ends, by := time.Now().Add(time.Duration(timeout)*time.Second), c.call.Actor.Key
	asleep := rec.State != vm.Running || rec.Op == vm.OpSuspend || rec.Op == vm.OpStop
	if asleep || ends.After(rec.Sandbox.EndsAt) || rec.Sandbox.By != by {
		rec, err = c.d.Engine.ChangeSandbox(c.Context(), c.call, string(rec.ID), func(s *vm.Sandbox) {
			if asleep || ends.After(s.EndsAt) {
				s.EndsAt = ends
			}
			s.By = by
		})
		if err != nil {
			return err
		}
	}
	if !asleep {
		return c.send(http.StatusOK, c.made(rec))
	}
	rec, err = c.d.Engine.Start(c.Context(), c.call, string(rec.ID), engine.StartRequest{DiskOnly: in.Memory != nil && !*in.Memory})
	if err != nil {
		return err
	}
	return c.send(http.StatusCreated, c.made(rec))
}
