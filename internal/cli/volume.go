// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func newVolume(a *app) *cobra.Command {
	return group("volume", "Keep files in encrypted volumes that VMs mount",
		`  warren volume create cache
  warren volume unlock cache
  warren volume mount box --volume cache --guest /cache --rw
  warren volume unmount box /cache
  warren volume lock cache`,
		newVolumeCreate(a), newVolumeUnlock(a), newVolumeLock(a), newVolumeLs(a), newVolumeInspect(a),
		newVolumeMount(a), newVolumeUnmount(a), newVolumeResize(a), newVolumeRm(a),
		newVolumeSnapshot(a), newVolumeRollback(a), newVolumeKey(a))
}

// projectFlag names the project of a volume.
func projectFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "project", "", "the project that its name belongs to (default \"default\")")
}

type volumeCreateOptions struct {
	name, project, size string
	secret              secretFlags
	recipient           string
	json                bool
}

func newVolumeCreate(a *app) *cobra.Command {
	o := &volumeCreateOptions{}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an encrypted volume; it is locked at first",
		Long: `Make an encrypted volume. It is locked, takes space as it fills, and gets a file system at the first mount with
--rw. Its random key is stored only encrypted: by this host's key, or by a passphrase or an age recipient if you
give one. To add more ways to unlock it, use ` + "`warren volume key add`" + `.`,
		Example: "  warren volume create cache\n  warren volume create work --size 32G --project shop\n  warren volume create secrets --passphrase",
		Args:    args(1, 1, "which name? warren volume create NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.volumeCreate(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.size, "size", "", "size: MiB, or such as 32G (default 8G)")
	o.secret.add(f, "a passphrase opens it, not this host's key")
	f.StringVar(&o.recipient, "recipient", "", "an age public key (age1...) opens it, not this host's key")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	projectFlag(cmd, &o.project)
	return cmd
}

func (a *app) volumeCreate(ctx context.Context, o *volumeCreateOptions) error {
	in := api.NewVolume{Name: o.name, Project: o.project, Recipient: o.recipient}
	var err error
	if in.SizeMib, err = parseMiB("--size", o.size); err != nil {
		return err
	}
	if in.Passphrase, err = a.passphrase(&o.secret, true); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("making %s", o.name)
	v, err := c.CreateVolume(ctx, in)
	p.done()
	return a.volumeDone(v, err, o.json, "is made, and locked")
}

// parseMiB reads a size; "" = 0.
func parseMiB(flag, s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	n, err := parseBytes(s, 1<<20)
	if err != nil {
		return 0, err
	}
	if n < 1<<20 || n%(1<<20) != 0 {
		return 0, usage("%s: %s is not a number of MiB", flag, printable(s)).WithHint("give one such as 512 or 32G")
	}
	return int(n >> 20), nil
}

// volumeDone prints the result for a volume.
func (a *app) volumeDone(v api.Volume, err error, asJSON bool, what string) error {
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.io.json(v)
	}
	a.io.printf("%s  %s %s\n", v.ID, volumeName(v.Project, v.Name), what)
	return nil
}

// volumeName is the name, with its project where that is not the default one.
func volumeName(project, name string) string {
	if project == "" || project == "default" {
		return printable(name)
	}
	return printable(project) + "/" + printable(name)
}

type volumeUnlockOptions struct {
	name, project string
	secret        secretFlags
	identity      string
	ttl           string
	keep          bool
	json          bool
}

func newVolumeUnlock(a *app) *cobra.Command {
	o := &volumeUnlockOptions{}
	cmd := &cobra.Command{
		Use:   "unlock NAME",
		Short: "Make a volume ready to be mounted",
		Long: `Check a volume and load its key into the server's memory, so that it can be mounted. It is locked again by
` + "`warren volume lock`" + `, when --ttl has passed, when the last VM that had it mounted ends (unless --keep),
and when the server ends. VMs that have it mounted keep using it.`,
		Example: "  warren volume unlock cache\n  warren volume unlock cache --ttl 1h\n  warren volume unlock secrets --passphrase\n  warren volume unlock secrets --identity ~/.age/key.txt",
		Args:    args(1, 1, "which volume? warren volume unlock NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.volumeUnlock(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVolumes,
	}
	f := cmd.Flags()
	o.secret.add(f, "open it with a passphrase")
	f.StringVar(&o.identity, "identity", "", "open it with the age identity in this file")
	f.StringVar(&o.ttl, "ttl", "", "lock it again after this time: seconds, or a duration such as 30m, 8h")
	f.BoolVar(&o.keep, "keep", false, "leave it unlocked when the last VM that had it mounted ends")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	projectFlag(cmd, &o.project)
	return cmd
}

func (a *app) volumeUnlock(ctx context.Context, o *volumeUnlockOptions) error {
	in := api.UnlockVolume{KeepUnlocked: o.keep}
	if o.ttl != "" {
		ttl, err := parseSeconds(o.ttl)
		if err != nil {
			return err
		}
		in.TTL = vm.Seconds(ttl)
	}
	var err error
	if in.Passphrase, err = a.passphrase(&o.secret, false); err != nil {
		return err
	}
	if in.Identity, err = a.fileText(o.identity); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	v, err := c.UnlockVolume(ctx, o.project, o.name, in)
	if err == nil && v.Recovered {
		a.io.tellf("warren: the header of %s was damaged and was restored from its copy", volumeName(v.Project, v.Name))
	}
	return a.volumeDone(v.Volume, err, o.json, "is unlocked: its files can be read on this host until it is locked")
}

type volumeLockOptions struct {
	name, project string
	force         bool
	json          bool
}

func newVolumeLock(a *app) *cobra.Command {
	o := &volumeLockOptions{}
	cmd := &cobra.Command{
		Use:   "lock NAME",
		Short: "Remove a volume's key from memory",
		Long: `Remove a volume's key from the server's memory: without the key its data cannot be read. It is refused
while a VM has the volume mounted; --force unmounts it first and kills the programs that use it.`,
		Example: "  warren volume lock cache\n  warren volume lock cache --force",
		Args:    args(1, 1, "which volume? warren volume lock NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			c, err := a.client()
			if err != nil {
				return err
			}
			v, err := c.LockVolume(cmd.Context(), o.project, o.name, api.LockVolume{Force: o.force})
			return a.volumeDone(v, err, o.json, "is locked")
		},
		ValidArgsFunction: a.completeVolumes,
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "unmount it first, and kill the programs that use it")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	projectFlag(cmd, &o.project)
	return cmd
}

type volumeLsOptions struct {
	vm, project string
	json        bool
}

func newVolumeLs(a *app) *cobra.Command {
	o := &volumeLsOptions{}
	cmd := &cobra.Command{
		Use: "ls [VM]", Short: "List volumes, or those that a VM has mounted",
		Example: "  warren volume ls\n  warren volume ls box\n  warren volume ls --project shop --json",
		Args:    args(0, 1, ""),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) > 0 {
				o.vm = list[0]
			}
			return a.volumeLs(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().StringVar(&o.project, "project", "", "only volumes of this project")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) volumeLs(ctx context.Context, o *volumeLsOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.vm != "" {
		return a.mountLs(ctx, o)
	}
	l, err := c.Volumes(ctx, o.project, "")
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"VOLUME", "STATE", "SIZE", "ON DISK", "AGE", "MOUNTED IN"}}
	for _, v := range l {
		t.add(volumeName(v.Project, v.Name), volumeState(v), mib(v.SizeMib), human(v.UsedBytes), age(v.CreatedAt), mountedIn(v))
	}
	a.io.print(t)
	return nil
}

// volumeState is the state of a volume, with details.
func volumeState(v api.Volume) string {
	switch {
	case v.State == api.VolumeLocked && len(v.Mounts) > 0:
		return "locked (in use)"
	case !v.LocksAt.IsZero():
		return v.State + " for " + span(time.Until(v.LocksAt))
	}
	return v.State
}

func mountedIn(v api.Volume) string {
	var in []string
	for _, m := range v.Mounts {
		in = append(in, printable(or(m.VMName, string(m.VM)))+":"+printable(m.Path)+access(m.RW))
	}
	return or(strings.Join(in, ", "), "-")
}

func access(rw bool) string {
	if rw {
		return " (rw)"
	}
	return " (ro)"
}

// mountName is what is mounted: a volume, or a directory of the host.
func mountName(m api.Mount) string {
	switch {
	case m.Host == "":
		return volumeName(m.Project, m.Name)
	case m.Name == "":
		return printable(m.Host)
	}
	return printable(m.Name) + " (" + printable(m.Host) + ")"
}

func (a *app) mountLs(ctx context.Context, o *volumeLsOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Mounts(ctx, o.vm)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"PATH", "VOLUME", "MODE", "SINCE"}}
	for _, m := range l {
		mode := "ro"
		if m.RW {
			mode = "rw"
		}
		since := age(m.Since)
		if m.Cut {
			mode, since = "cut off", "-"
		}
		t.add(printable(m.Path), mountName(m), mode, since)
	}
	a.io.print(t)
	return nil
}
