// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/backup"
	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/handoff"
)

// backups returns the functions of the command line for backups in files.
func (c commands) backups() cli.Backups {
	return cli.Backups{Encrypt: bundle.Encrypt, Inspect: c.backupInspect, Verify: c.backupVerify, Restore: c.backupRestore}
}

func backupSource(o cli.BackupFile) backup.Source {
	return backup.Source{
		Path: o.Path, Keys: bundle.Keys{Passphrase: o.Passphrase, Identities: o.Identities}, Trust: o.Trust,
		Progress: o.Progress, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

func (c commands) backupInspect(_ context.Context, o cli.BackupFile) (cli.BackupInfo, error) {
	m, signer, err := backup.Inspect(backupSource(o))
	if err != nil {
		return cli.BackupInfo{}, err
	}
	return backupInfo(o.Path, m, signer)
}

func backupInfo(path string, m bundle.Manifest, signer string) (cli.BackupInfo, error) {
	f, err := backup.FactsOf(m)
	if err != nil {
		return cli.BackupInfo{}, err
	}
	out := cli.BackupInfo{
		Path: path, Made: m.At, Server: m.Server, Warren: m.Warren, Signer: signer, Entries: len(m.Entries), Bytes: m.Bytes(),
		Records: f.Records, VMs: f.VMs, Generations: f.Generations, Repositories: f.Repositories, Volumes: f.Volumes, Images: f.Images,
		Left: backupLeft(f.Left),
	}
	if at := backup.VerifiedAt(path); !at.IsZero() {
		out.Verified = &at
	}
	return out, nil
}

func backupLeft(in []backup.Left) []cli.BackupLeft {
	out := []cli.BackupLeft{}
	for _, l := range in {
		out = append(out, cli.BackupLeft(l))
	}
	return out
}

func (c commands) backupVerify(ctx context.Context, o cli.BackupFile) (cli.BackupReport, error) {
	r, err := backup.Verify(ctx, backupSource(o), o.Scratch)
	if err == nil {
		err = r.Keep(o.Path)
	}
	if err != nil {
		return cli.BackupReport{}, err
	}
	out := cli.BackupReport{
		Path: o.Path, Made: r.Made, At: r.At, Server: r.Server, Signer: r.Signer, Entries: r.Entries, Bytes: r.Bytes,
		Left: backupLeft(r.Left), OK: r.OK,
	}
	for _, c := range r.Checks {
		out.Checks = append(out.Checks, cli.BackupCheck(c))
	}
	return out, nil
}

func (c commands) backupRestore(ctx context.Context, o cli.BackupFile) (cli.BackupInfo, error) {
	path, err := DataDir(o.Data, c.getenv, c.uid)
	if err != nil {
		return cli.BackupInfo{}, err
	}
	r, err := backup.Restore(ctx, backupSource(o), path)
	if err != nil {
		return cli.BackupInfo{}, err
	}
	info, err := backupInfo(o.Path, r.Manifest, r.Signer)
	info.Data = path
	return info, err
}

// bundleInspect checks every byte of a bundle.
func (c commands) bundleInspect(ctx context.Context, path string, trust []string) (cli.BundleInfo, error) {
	m, signer, err := handoff.Inspect(ctx, path)
	if err != nil {
		return cli.BundleInfo{}, err
	}
	f, err := handoff.FactsOf(m)
	if err != nil {
		return cli.BundleInfo{}, err
	}
	out := cli.BundleInfo{
		Path: path, Made: m.At, Server: m.Server, Warren: m.Warren, Signer: signer, Trusted: slices.Contains(trust, signer),
		VM: f.VM, Name: f.Name, State: f.State, Machine: f.Machine, Memory: f.Memory, Image: string(f.Image), HasImage: f.HasImage,
		Repositories: f.Repositories, Receipts: f.Receipts, Bytes: m.Bytes(), Objects: []cli.BundleObject{}, ObjectsLeft: f.ObjectsLeft, Entries: []cli.BundleEntry{},
	}
	for _, o := range f.Objects {
		out.Objects = append(out.Objects, cli.BundleObject(o))
	}
	for _, e := range m.Entries {
		out.Entries = append(out.Entries, cli.BundleEntry{Path: e.Path, Kind: e.Kind, Size: e.Size, SHA256: e.SHA256})
	}
	return out, nil
}
