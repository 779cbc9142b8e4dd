// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type volumeMountOptions struct {
	vm, volume, project, guest string
	host                       string
	rw, over, share            bool
	json                       bool
}

func newVolumeMount(a *app) *cobra.Command {
	o := &volumeMountOptions{}
	cmd := &cobra.Command{
		Use:   "mount VM --volume NAME --guest PATH",
		Short: "Mount an unlocked volume, or a directory of the host, in a VM",
		Long: `Mount an unlocked volume at a path of a VM; a suspended VM is woken. Without --rw the host prevents writes. A
volume has one writer or many readers. With --share a VM may read while another one writes: its data may be old or
half written. Two writers are refused, also with --share. The mount ends with the VM's machine: a stop ends it, a
suspend keeps it.

--host mounts a directory of the server's host and calls it NAME. Only a VM of the profile dev may write to it
("warren profile ls"). It must be encrypted at rest (dm-crypt, fscrypt, gocryptfs, eCryptfs, ZFS); a directory of
unknown state is refused. The VM follows no symbolic link on the host, and sees changes on the host within a
second. Its files belong to root in the VM. Forks get it read-only.

With s3://BUCKET/PREFIX in place of a volume, its objects are files that the VM reads and never writes.`,
		Example: `  warren volume mount box --volume cache --guest /cache
  warren volume mount box --volume cache --guest /cache --rw
  warren volume mount box --volume project-data --host /srv/crypt/data --guest /data
  warren volume mount box --volume s3://datasets/2026 --guest /data`,
		Args: args(1, 1, "which VM? warren volume mount VM --volume NAME --guest PATH"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.vm = list[0]
			if o.host != "" && (o.share || o.project != "") {
				return usage("--share and --project apply to volumes, not to --host")
			}
			if o.volume == "" || o.guest == "" {
				return usage("--volume and --guest are needed").WithHint("see `%s --help`", cmd.CommandPath())
			}
			return a.volumeMount(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.StringVar(&o.volume, "volume", "", "the volume, or s3://BUCKET/PREFIX")
	f.StringVar(&o.host, "host", "", "absolute path of a directory of the server's host, encrypted at rest")
	f.StringVar(&o.guest, "guest", "", "absolute path in the VM; created if it is missing")
	f.BoolVar(&o.rw, "rw", false, "let the VM write")
	f.BoolVar(&o.over, "over", false, "allow a directory that is not empty; its contents are hidden while the mount lasts")
	f.BoolVar(&o.share, "share", false, "read while a VM writes, or write while VMs with --share read; a second writer is refused")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	projectFlag(cmd, &o.project)
	return cmd
}

func (a *app) volumeMount(ctx context.Context, o *volumeMountOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if vm.IsObjects(o.volume) && o.host == "" {
		o.host, o.volume = o.volume, ""
	}
	m, err := c.Mount(ctx, o.vm, api.NewMount{
		Volume: o.volume, Project: o.project, Path: o.guest, RW: o.rw, Over: o.over, Share: o.share, Host: o.host,
	})
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(m)
	}
	name := volumeName(m.Project, m.Name)
	if m.Host != "" {
		name = printable(m.Host)
	}
	a.io.printf("%s is mounted in %s at %s%s\n", name, printable(o.vm), printable(m.Path), access(m.RW))
	return nil
}

type volumeUnmountOptions struct {
	vm, path string
	force    bool
}

func newVolumeUnmount(a *app) *cobra.Command {
	o := &volumeUnmountOptions{}
	cmd := &cobra.Command{
		Use: "unmount VM PATH", Short: "Unmount a volume or a directory of the host from a VM",
		Long: `Unmount a volume from a VM, by its path there or by its name. If programs use it, the error names them; --force
kills them. The volume stays unlocked.`,
		Example: "  warren volume unmount box /cache\n  warren volume unmount box cache --force",
		Args:    args(2, 2, "which VM, and which path? warren volume unmount VM PATH"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.vm, o.path = list[0], list[1]
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.Unmount(cmd.Context(), o.vm, o.path, o.force); err != nil {
				return err
			}
			a.changed(change{Name: o.path, Result: "unmounted", text: o.path + " is no longer mounted in " + o.vm})
			return nil
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "kill the programs that use it")
	return a.changing(cmd)
}

type volumeOptions struct {
	name, project, size string
	json                bool
}

func newVolumeInspect(a *app) *cobra.Command {
	o := &volumeOptions{}
	cmd := &cobra.Command{
		Use: "inspect NAME", Short: "Show all details of a volume, as JSON",
		Example: "  warren volume inspect cache", Args: args(1, 1, "which volume? warren volume inspect NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			c, err := a.client()
			if err != nil {
				return err
			}
			v, err := c.Volume(cmd.Context(), o.project, o.name)
			if err != nil {
				return err
			}
			return a.io.json(v)
		},
		ValidArgsFunction: a.completeVolumes,
	}
	cmd.Flags().Bool("json", true, "print as JSON; there is no other form")
	projectFlag(cmd, &o.project)
	return cmd
}

func newVolumeResize(a *app) *cobra.Command {
	o := &volumeOptions{}
	cmd := &cobra.Command{
		Use: "resize NAME SIZE", Short: "Make a volume larger",
		Long:    "Make an unlocked, unmounted volume larger. Its file system grows at the next mount with --rw.",
		Example: "  warren volume resize cache 32G", Args: args(2, 2, "which volume, how large? warren volume resize NAME SIZE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.size = list[0], list[1]
			n, err := parseMiB("SIZE", o.size)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			v, err := c.ResizeVolume(cmd.Context(), o.project, o.name, n)
			return a.volumeDone(v, err, o.json, "has "+mib(v.SizeMib))
		},
		ValidArgsFunction: a.completeVolumes,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	projectFlag(cmd, &o.project)
	return cmd
}

func newVolumeRm(a *app) *cobra.Command {
	var project string
	cmd := &cobra.Command{
		Use: "rm NAME...", Short: "Erase volumes",
		Long:    "Erase unmounted volumes: first their keys, without which the data cannot be read, then their files.",
		Example: "  warren volume rm cache", Args: args(1, -1, "which volume? warren volume rm NAME..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.endEach(list, "erased", func(c *client.Client, name string) error { return c.RemoveVolume(cmd.Context(), project, name) })
		},
		ValidArgsFunction: a.completeVolumes,
	}
	projectFlag(cmd, &project)
	return a.changing(cmd)
}

func newVolumeKey(a *app) *cobra.Command {
	return group("key", "Manage the ways to unlock a volume", "  warren volume key add cache --passphrase\n  warren volume key rm cache ks-01234567",
		newVolumeKeyAdd(a), newVolumeKeyRm(a), newVolumeKeyRotate(a))
}

type volumeKeyOptions struct {
	volume, project string
	slot            string
	secret          secretFlags
	spec            vm.VolumeSlotSpec
	json            bool
}

func newVolumeKeyAdd(a *app) *cobra.Command {
	o := &volumeKeyOptions{}
	cmd := &cobra.Command{
		Use: "add VOLUME", Short: "Add a way to unlock a volume",
		Long:    "Add a way to unlock an unlocked volume: a passphrase, an age recipient, or, with neither, this host's key.",
		Example: "  warren volume key add cache --passphrase --name mine\n  warren volume key add cache --recipient age1...",
		Args:    args(1, 1, "which volume? warren volume key add VOLUME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.volume = list[0]
			return a.volumeKeyAdd(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVolumes,
	}
	f := cmd.Flags()
	f.StringVar(&o.spec.Name, "name", "", "what it is for")
	o.secret.add(f, "a passphrase opens it")
	f.StringVar(&o.spec.Recipient, "recipient", "", "an age public key (age1...) opens it")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	projectFlag(cmd, &o.project)
	return cmd
}

func (a *app) volumeKeyAdd(ctx context.Context, o *volumeKeyOptions) (err error) {
	if o.spec.Passphrase, err = a.passphrase(&o.secret, true); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	slot, err := c.AddVolumeKey(ctx, o.project, o.volume, o.spec)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(slot)
	}
	a.io.printf("%s  %s opens %s\n", slot.ID, map[string]string{
		vm.SlotHost: "this host's key", vm.SlotPassphrase: "the passphrase", vm.SlotRecipient: "the recipient",
	}[slot.Kind], printable(o.volume))
	return nil
}

func newVolumeKeyRm(a *app) *cobra.Command {
	o := &volumeKeyOptions{}
	cmd := &cobra.Command{
		Use: "rm VOLUME KEY", Short: "Remove a way to unlock a volume",
		Long:    "Remove a way to unlock an unlocked volume. The last one stays. `warren volume inspect` lists them.",
		Example: "  warren volume key rm cache ks-01234567", Args: args(2, 2, "which key of which volume? warren volume key rm VOLUME KEY"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.volume, o.slot = list[0], list[1]
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveVolumeKey(cmd.Context(), o.project, o.volume, o.slot); err != nil {
				return err
			}
			a.changed(change{Name: o.slot, Result: "removed", text: o.slot + " no longer opens " + o.volume})
			return nil
		},
		ValidArgsFunction: a.completeVolumes,
	}
	projectFlag(cmd, &o.project)
	return a.changing(cmd)
}

func newVolumeKeyRotate(a *app) *cobra.Command {
	o := &volumeKeyOptions{}
	cmd := &cobra.Command{
		Use: "rotate VOLUME", Short: "Give a volume a new key",
		Long: `Give an unlocked, unmounted volume a new key: older copies of its key slots no longer unlock it. The ways to
unlock it stay, except passphrases: remove them first and add them again afterwards. The encryption key of the
disk itself does not change.`,
		Example: "  warren volume key rotate cache", Args: args(1, 1, "which volume? warren volume key rotate VOLUME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.volume = list[0]
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RotateVolume(cmd.Context(), o.project, o.volume); err != nil {
				return err
			}
			a.changed(change{Name: o.volume, Result: "rotated", text: o.volume + " has a new key"})
			return nil
		},
		ValidArgsFunction: a.completeVolumes,
	}
	projectFlag(cmd, &o.project)
	return a.changing(cmd)
}

// secretFlags ask for a passphrase. It is never an argument, because other
// users of the host can read arguments.
type secretFlags struct {
	ask  bool
	file string
}

func (s *secretFlags) add(f *pflag.FlagSet, what string) {
	f.BoolVar(&s.ask, "passphrase", false, what+"; it is asked for, or read from standard input")
	f.StringVar(&s.file, "passphrase-file", "", "read the passphrase from the first line of this file")
}

// passphrase reads a passphrase if the flags ask for one; "" = they do not.
// It asks twice for a new one.
func (a *app) passphrase(s *secretFlags, twice bool) (string, error) {
	switch {
	case s.file != "":
		text, err := a.fileText(s.file)
		if err != nil {
			return "", err
		}
		line, _, _ := strings.Cut(text, "\n")
		return notEmpty(strings.TrimSuffix(line, "\r"))
	case !s.ask:
		return "", nil
	}
	fd, ok := terminal(a.io.in)
	if !ok {
		line, err := bufio.NewReader(a.io.in).ReadString('\n')
		if err != nil && err != io.EOF {
			return "", vm.Errorf(vm.Invalid, "stdin", "no passphrase: %w", err)
		}
		return notEmpty(strings.TrimRight(line, "\r\n"))
	}
	first, err := a.typed(fd, "Passphrase: ")
	if err != nil || !twice {
		return first, err
	}
	again, err := a.typed(fd, "Again: ")
	if err == nil && again != first {
		err = usage("the two passphrases differ")
	}
	return first, err
}

func notEmpty(s string) (string, error) {
	if s == "" {
		return "", usage("the passphrase is empty")
	}
	return s, nil
}

// typed reads a line from the terminal without showing it.
func (a *app) typed(fd int, prompt string) (string, error) {
	_, _ = io.WriteString(a.io.err, prompt)
	line, err := term.ReadPassword(fd)
	a.io.tellf("")
	if err != nil {
		return "", vm.Errorf(vm.Cancelled, "", "no passphrase: %w", err)
	}
	return notEmpty(string(line))
}

// maxSecretFile limits the size of a file with a secret.
const maxSecretFile = 64 << 10

// fileText reads a small file, - = standard input; "" = none.
func (a *app) fileText(path string) (string, error) {
	in := a.io.in
	switch path {
	case "":
		return "", nil
	case "-":
	default:
		f, err := os.Open(path)
		if err != nil {
			return "", vm.Errorf(vm.Invalid, path, "cannot be read: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSecretFile))
	if err != nil {
		return "", vm.Errorf(vm.Invalid, path, "cannot be read: %w", err)
	}
	return string(data), nil
}

// completeVolumes completes names of volumes of the default project.
func (a *app) completeVolumes(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := a.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	volumes, err := c.Volumes(cmd.Context(), "default", "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, v := range volumes {
		if strings.HasPrefix(v.Name, prefix) {
			out = append(out, v.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
