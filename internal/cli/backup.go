// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

// Backups has the functions that work on backups in files, without a server.
type Backups struct {
	// Encrypt encrypts what is written for age recipients, or by a passphrase; with neither
	// it does not. Closing completes the file and leaves w open.
	Encrypt func(w io.Writer, recipients []string, passphrase string) (io.WriteCloser, error)
	// Inspect reads the manifest of a backup.
	Inspect func(ctx context.Context, o BackupFile) (BackupInfo, error)
	// Verify restores a backup into a new directory inside Scratch, checks it, and removes
	// the directory. It keeps the report beside a backup that is whole.
	Verify func(ctx context.Context, o BackupFile) (BackupReport, error)
	// Restore makes the data directory Data of a backup.
	Restore func(ctx context.Context, o BackupFile) (BackupInfo, error)
}

// BackupFile is a backup in a file.
type BackupFile struct {
	Path       string
	Data       string // of Restore: the data directory; "" = as the environment says
	Scratch    string // of Verify
	Trust      string // fingerprint of the key that must have signed it; "" = any
	Passphrase string
	Identities string // in the format of age-keygen
	Progress   func(step string, done, total int64)
}

// BackupInfo is what a backup contains.
type BackupInfo struct {
	Path         string       `json:"path"`
	Made         time.Time    `json:"made"`
	Server       string       `json:"server"`
	Warren       string       `json:"warren"` // version of the program
	Signer       string       `json:"signer"` // fingerprint
	Verified     *time.Time   `json:"verified"`
	Entries      int          `json:"entries"`
	Bytes        int64        `json:"bytes"`
	Records      int          `json:"records"`
	VMs          int          `json:"vms"`
	Generations  int          `json:"generations"`
	Repositories int          `json:"repositories"`
	Volumes      int          `json:"volumes"`
	Images       int          `json:"images"`
	Left         []BackupLeft `json:"left"`
	Data         string       `json:"data,omitempty"` // of Restore: the data directory
}

// BackupLeft is something that a backup lacks.
type BackupLeft struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// BackupReport is the outcome of a verification.
type BackupReport struct {
	Path    string        `json:"path"`
	Made    time.Time     `json:"made"`
	At      time.Time     `json:"at"`
	Server  string        `json:"server"`
	Signer  string        `json:"signer"`
	Entries int           `json:"entries"`
	Bytes   int64         `json:"bytes"`
	Checks  []BackupCheck `json:"checks"`
	Left    []BackupLeft  `json:"left"`
	OK      bool          `json:"ok"`
}

// BackupCheck is one check of a verification.
type BackupCheck struct {
	What     string   `json:"what"`
	Count    int      `json:"count"`
	Problems []string `json:"problems,omitempty"`
}

func newBackup(a *app) *cobra.Command {
	return group("backup", "Back up, verify and restore a server", "  warren backup create -o /mnt/backups\n  warren backup verify /mnt/backups/warren-20260102-030405.tar.zst",
		newBackupCreate(a), newBackupInspect(a), newBackupVerify(a), newBackupRestore(a))
}

type backupOptions struct {
	out        string
	noVerify   bool
	scratch    string
	trust      string
	recipients []string
	identity   string
	secret     secretFlags
	json       bool
}

func (o *backupOptions) open(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.trust, "trust", "", "refuse a backup that another key than this fingerprint's has signed")
	f.StringVar(&o.identity, "identity", "", "open an encrypted backup with the age identity in this file")
	o.secret.add(f, "open an encrypted backup with a passphrase")
	f.BoolVar(&o.json, "json", false, "print as JSON")
}

// file is the backup at a path with what opens it.
func (a *app) backupFile(o *backupOptions, path string) (BackupFile, error) {
	f := BackupFile{Path: path, Data: a.data, Trust: o.trust, Scratch: o.scratch}
	var err error
	if f.Passphrase, err = a.passphrase(&o.secret, false); err != nil || o.identity == "" {
		return f, err
	}
	data, err := os.ReadFile(o.identity)
	if err != nil {
		return f, vm.Errorf(vm.NotFound, o.identity, "%w", err)
	}
	f.Identities = string(data)
	return f, nil
}

func newBackupCreate(a *app) *cobra.Command {
	o := &backupOptions{}
	cmd := &cobra.Command{
		Use: "create", Short: "Copy the state of a running server, and verify the copy",
		Long: `Copy the records, keys, repositories, disks, audit records and events of a running server into one file. VMs keep
running. The copy of a running VM has its disk, but not its memory: restored, it is stopped. The copy is then
restored into a temporary directory and checked. Only a verified copy is called a backup. The file has the keys of
the server: it has mode 0600, and --recipient or --passphrase encrypts it.`,
		Example: "  warren backup create -o /mnt/backups\n  warren backup create -o nightly.tar.zst --no-verify\n  warren backup create --recipient age1...",
		Args:    args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.backupCreate(cmd.Context(), o) },

		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", ".", "the file to write, or the directory to write it in")
	f.BoolVar(&o.noVerify, "no-verify", false, "do not verify the copy")
	f.StringVar(&o.scratch, "scratch", "", "the directory in which it is verified (default: that of the file)")
	f.StringSliceVar(&o.recipients, "recipient", nil, "encrypt it for this age recipient")
	f.StringVar(&o.identity, "identity", "", "verify an encrypted copy with the age identity in this file")
	o.secret.add(f, "encrypt it with a passphrase")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) backupCreate(ctx context.Context, o *backupOptions) error {
	local := a.local.Backups
	if local.Encrypt == nil {
		return notHere("backup create")
	}
	if len(o.recipients) > 0 && o.identity == "" && !o.noVerify {
		return usage("a copy that is encrypted for a recipient can be verified only with its --identity; or use --no-verify")
	}
	secret, err := a.passphrase(&o.secret, true)
	if err != nil {
		return err
	}
	path, err := o.target(time.Now(), secret != "" || len(o.recipients) > 0)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := a.download(path, "copying the server's state", c.Backup, ctx, func(w io.Writer) (io.WriteCloser, error) {
		return local.Encrypt(w, o.recipients, secret)
	}); err != nil {
		return err
	}
	a.io.notef("%s is an unverified copy", path)
	if o.noVerify {
		if !o.json {
			a.io.printf("unverified copy %s: `warren backup verify %s` tells whether it can be restored\n", path, path)
			return nil
		}
		if len(o.recipients) > 0 {
			return a.io.json(BackupInfo{Path: path, Left: []BackupLeft{}}) // nobody here can read it
		}
		info, err := local.Inspect(ctx, BackupFile{Path: path, Passphrase: secret})
		if err != nil {
			return err
		}
		return a.io.json(info)
	}
	o.secret = secretFlags{}
	file, err := a.backupFile(o, path)
	if err != nil {
		return err
	}
	file.Passphrase = secret
	return a.verify(ctx, o, file)
}

// target is the path of a new backup, which must not exist.
func (o *backupOptions) target(now time.Time, encrypted bool) (string, error) {
	path := o.out
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "warren-"+now.UTC().Format("20060102-150405")+".tar.zst")
		if encrypted {
			path += ".age"
		}
	}
	return path, mustBeNew(path)
}

func mustBeNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return vm.Errorf(vm.Exists, path, "there is such a file already").WithHint("choose another name with -o")
	}
	return nil
}

// download writes a stream of the server's to a new file of mode 0600, through wrap. The
// file gets its name when it is complete and on the disk; before, nothing has it.
func (a *app) download(path, what string, get func(context.Context) (io.ReadCloser, error), ctx context.Context, wrap func(io.Writer) (io.WriteCloser, error)) (err error) {
	var n atomic.Int64
	p := a.io.progress(func() string { return fmt.Sprintf("%s: %s", what, human(n.Load())) })
	defer p.done()
	r, err := get(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"-")
	if err != nil {
		return fileFailed(path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // already closed on the later paths
			_ = os.Remove(f.Name()) // or it has its name
		}
	}()
	w, err := wrap(f)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, counting{r, &n}, make([]byte, 1<<20)); err != nil {
		return fileFailed(path, err)
	}
	if err := errors.Join(w.Close(), f.Sync(), f.Close()); err != nil {
		return fileFailed(path, err)
	}
	if err := os.Link(f.Name(), path); err != nil { // not Rename, which would replace a file
		return fileFailed(path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fileFailed(path, err)
	}
	return fileFailed(path, errors.Join(os.Remove(f.Name()), dir.Sync(), dir.Close()))
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// fileFailed gives an operating system's error about a file its kind.
func fileFailed(path string, err error) error {
	var known *vm.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	kind := vm.Internal
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return vm.Errorf(vm.NoSpace, path, "the disk is full; nothing of it was kept").WithHint("free disk space, or choose another disk")
	case errors.Is(err, fs.ErrExist):
		kind = vm.Exists
	case errors.Is(err, fs.ErrNotExist):
		kind = vm.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = vm.Denied
	}
	return vm.Errorf(kind, path, "cannot be written: %w", err)
}

func newBackupInspect(a *app) *cobra.Command {
	o := &backupOptions{}
	cmd := &cobra.Command{
		Use: "inspect FILE", Short: "Print what a backup contains and who signed it",
		Long:    "Read the signed manifest of a backup. The rest of the file is not read: `warren backup verify` checks all of it.",
		Example: "  warren backup inspect nightly.tar.zst\n  warren backup inspect nightly.tar.zst --json",
		Args:    args(1, 1, "FILE is missing"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if a.local.Backups.Inspect == nil {
				return notHere("backup inspect")
			}
			f, err := a.backupFile(o, list[0])
			if err != nil {
				return err
			}
			info, err := a.local.Backups.Inspect(cmd.Context(), f)
			if err != nil {
				return err
			}
			if o.json {
				return a.io.json(info)
			}
			a.showBackup(info)
			return nil
		},
	}
	o.open(cmd)
	return cmd
}

func (a *app) showBackup(i BackupInfo) {
	what := "unverified copy"
	if i.Verified != nil {
		what = "backup, verified " + i.Verified.Local().Format(time.DateTime)
	}
	a.io.printf("%s: %s\n", i.Path, what)
	a.io.printf("made %s by server %s, warren %s\n", i.Made.Local().Format(time.DateTime), printable(i.Server), printable(i.Warren))
	a.io.printf("signed by %s\n", i.Signer)
	a.io.printf("%d records, %d VMs, %d generations, %d repositories, %d volumes, %d images; %s in %d files\n",
		i.Records, i.VMs, i.Generations, i.Repositories, i.Volumes, i.Images, human(i.Bytes), i.Entries)
	a.showLeft(i.Left)
}

func (a *app) showLeft(left []BackupLeft) {
	for _, l := range left {
		a.io.tellf("not in it: %s: %s", printable(l.What), printable(l.Why))
	}
}

func newBackupVerify(a *app) *cobra.Command {
	o := &backupOptions{}
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Restore a copy into a temporary directory, check it and report",
		Long: `Restore a copy into a temporary directory and check it: every byte, the records, every repository, the disks, the
memory of generations and the audit chain. The report is kept in FILE.verified; from then on the copy is called a
backup. If a check fails, the exit status is 13. It needs as much disk space as the server takes.`,
		Example: "  warren backup verify nightly.tar.zst\n  warren backup verify nightly.tar.zst --scratch /var/tmp --json",
		Args:    args(1, 1, "FILE is missing"),
		RunE: func(cmd *cobra.Command, list []string) error {
			f, err := a.backupFile(o, list[0])
			if err != nil {
				return err
			}
			return a.verify(cmd.Context(), o, f)
		},
	}
	o.open(cmd)
	cmd.Flags().StringVar(&o.scratch, "scratch", "", "the directory in which it is restored (default: that of FILE)")
	return cmd
}

func (a *app) verify(ctx context.Context, o *backupOptions, f BackupFile) error {
	if a.local.Backups.Verify == nil {
		return notHere("backup verify")
	}
	if f.Scratch == "" {
		f.Scratch = filepath.Dir(f.Path)
	}
	done := a.steps(&f)
	r, err := a.local.Backups.Verify(ctx, f)
	done()
	if err != nil {
		return err
	}
	if o.json {
		if err := a.io.json(r); err != nil {
			return err
		}
	}
	if !r.OK {
		var problems []string
		for _, c := range r.Checks {
			problems = append(problems, c.Problems...)
		}
		return vm.Errorf(vm.Corrupt, f.Path, "it is no backup: %s", printable(strings.Join(problems, "; "))).WithHint("make another one: `warren backup create`")
	}
	if o.json {
		return nil
	}
	var counts []string
	for _, c := range r.Checks {
		counts = append(counts, fmt.Sprintf("%d %s", c.Count, c.What))
	}
	a.io.printf("backup %s, verified: %s in %d files; %s\n", f.Path, human(r.Bytes), r.Entries, strings.Join(counts, ", "))
	a.io.printf("signed by %s\n", r.Signer)
	a.showLeft(r.Left)
	return nil
}

// steps shows the progress of f, until the returned function is called.
func (a *app) steps(f *BackupFile) (done func()) {
	var mu sync.Mutex
	step, at, total := "reading", int64(0), int64(0)
	f.Progress = func(s string, d, t int64) {
		mu.Lock()
		defer mu.Unlock()
		step, at, total = s, d, t
	}
	p := a.io.progress(func() string {
		mu.Lock()
		defer mu.Unlock()
		if total <= 0 {
			return step
		}
		return fmt.Sprintf("%s: %d%% of %s", step, 100*at/total, human(total))
	})
	return p.done
}

func newBackupRestore(a *app) *cobra.Command {
	o := &backupOptions{}
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Make an empty data directory from a backup",
		Long: `Make a data directory from a backup. The directory (--data) must be absent or empty, and no server may use it. The
whole file is checked before the first byte is restored; if anything fails, the directory is empty again. Then
start the server. VMs that ran when the backup was made are stopped.`,
		Example: "  warren --data /var/lib/warren backup restore nightly.tar.zst\n  warren backup restore nightly.tar.zst.age --identity key.txt",
		Args:    args(1, 1, "FILE is missing"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if a.local.Backups.Restore == nil {
				return notHere("backup restore")
			}
			f, err := a.backupFile(o, list[0])
			if err != nil {
				return err
			}
			done := a.steps(&f)
			info, err := a.local.Backups.Restore(cmd.Context(), f)
			done()
			if err != nil {
				return err
			}
			if o.json {
				return a.io.json(info)
			}
			a.io.printf("restored %s: %d VMs, %d repositories, %d records; now start the server: `warren serve`\n", info.Data, info.VMs, info.Repositories, info.Records)
			a.showLeft(info.Left)
			return nil
		},
	}
	o.open(cmd)
	return cmd
}
