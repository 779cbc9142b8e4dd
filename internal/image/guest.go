// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

//go:embed guest
var guestFiles embed.FS

func guestFile(name string) string {
	data, err := guestFiles.ReadFile("guest/" + name)
	if err != nil {
		panic(err) // embedded at compile time
	}
	return string(data)
}

const (
	kernelPackage = "linux-image-cloud-amd64"
	slackMiB      = 320 // minimum free space of a fresh image
	guestPath     = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	hostCADir     = "usr/local/share/ca-certificates"
	hostCABundle  = "/etc/ssl/warren-host-ca.pem"
	systemCAs     = "/etc/ssl/certs/ca-certificates.crt"
	guestEpoch    = 0 // modification time of files that the build writes
)

// A hostCA is a certificate that the operator added to the host.
type hostCA struct {
	Name string // file name, ends in .crt
	PEM  []byte
}

// hostCAs reads the operator's certificates below root.
func hostCAs(root string) ([]hostCA, error) {
	dir := filepath.Join(root, hostCADir)
	var out []hostCA
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && p == dir:
			return nil // no such directory
		case err != nil:
			return err
		case e.IsDir() || filepath.Ext(p) != ".crt":
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if !bytes.Contains(data, []byte("-----BEGIN CERTIFICATE-----")) {
			return nil
		}
		out = append(out, hostCA{Name: filepath.Base(p), PEM: data})
		return nil
	})
	if err != nil {
		return nil, vm.Errorf(vm.Denied, dir, "the host's certificates are not readable: %w", err).
			WithHint("build with --no-host-ca to leave them out")
	}
	return out, nil
}

// plan is everything that goes into one image.
type plan struct {
	recipe  Recipe // resolved
	sources aptSources
	cas     []hostCA
	fetched []fetched // the recipe's downloads
}

// fetched is a downloaded archive on this host.
type fetched struct {
	RecipeDownload
	file string
}

// env returns the environment of every process of the guest, as in /etc/environment.
func (p plan) env() map[string]string {
	env := map[string]string{"PATH": guestPath, "LANG": "C.UTF-8"}
	if len(p.cas) > 0 {
		env["SSL_CERT_FILE"] = systemCAs
		env["PIP_CERT"] = systemCAs
		env["REQUESTS_CA_BUNDLE"] = systemCAs
		env["NODE_EXTRA_CA_CERTS"] = hostCABundle // only what node lacks: it reads the file at each start
	}
	maps.Copy(env, p.recipe.Env)
	return env
}

// environment renders env with one assignment per line, sorted.
func environment(env map[string]string, quote string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&b, "%s=%s%s%s\n", k, quote, env[k], quote)
	}
	return b.String()
}

// finalFiles are added to the image last. They replace files that the build needed.
func (p plan) finalFiles() map[string]string {
	env := p.env()
	var assignments []string
	for _, k := range slices.Sorted(maps.Keys(env)) {
		assignments = append(assignments, strconv.Quote(k+"="+strings.ReplaceAll(env[k], "%", "%%")))
	}
	return map[string]string{
		"etc/resolv.conf":                         "nameserver 10.0.2.3\noptions timeout:2 attempts:2\n",
		"etc/hostname":                            "warren\n",
		"etc/hosts":                               "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n",
		"etc/fstab":                               "",
		"etc/environment":                         environment(env, ""),
		"etc/default/locale":                      "LANG=C.UTF-8\n",
		"etc/apt/sources.list.d/debian.sources":   p.sources.String(),
		"etc/apt/apt.conf.d/90warren":             "Acquire::Languages \"none\";\n",
		"etc/dpkg/dpkg.cfg.d/99mmdebstrap":        "",
		"etc/dpkg/dpkg.cfg.d/warren":              strings.Join(dpkgOptions, "\n") + "\n",
		"etc/tmpfiles.d/x11.conf":                 "# no X server here\n",
		"etc/tmpfiles.d/systemd-nologin.conf":     "# systemd-user-sessions, which would remove /run/nologin, is masked\n",
		"etc/systemd/journald.conf.d/warren.conf": "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\nForwardToSyslog=no\nForwardToWall=no\n",
		"etc/systemd/system.conf.d/warren.conf": "[Manager]\nDefaultTimeoutStopSec=10s\nDefaultEnvironment=" +
			strings.Join(assignments, " ") + "\n",
	}
}

// dpkgOptions apply in the build and in the guest. An fsync per file does not
// repair a machine that loses power during an installation, and under
// emulation the fsyncs cost more than the installation.
var dpkgOptions = []string{
	"force-unsafe-io",
	"path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/info/*",
	"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
}

// lists returns the files that customize.sh reads.
func (p plan) lists() map[string]string {
	var users, owners, enable, disable strings.Builder
	masked := strings.Fields(guestFile("mask"))
	for _, u := range p.recipe.Users {
		shell, uid := u.Shell, "-"
		if shell == "" {
			shell = "/bin/bash"
		}
		if u.UID != 0 {
			uid = strconv.Itoa(u.UID)
		}
		fmt.Fprintf(&users, "%s %s %s %s\n", u.Name, uid, shell, strings.Join(u.Groups, ","))
	}
	for _, f := range p.recipe.Files {
		if f.Owner != "" {
			fmt.Fprintf(&owners, "%s %s\n", f.Owner, f.Path)
		}
	}
	fmt.Fprintln(&enable, "warren-booted.service")
	for _, s := range p.recipe.Services {
		if s.Enable == nil || *s.Enable {
			fmt.Fprintln(&enable, s.Name)
		} else {
			fmt.Fprintln(&disable, s.Name)
		}
		masked = slices.DeleteFunc(masked, func(m string) bool { return m == s.Name })
	}
	env := p.env()
	delete(env, "PATH")
	delete(env, "LANG")
	out := map[string]string{
		"settings":    fmt.Sprintf("SLACK_MIB=%d\nLABEL=warren\n", slackMiB),
		"users":       users.String(),
		"owners":      owners.String(),
		"enable":      enable.String(),
		"disable":     disable.String(),
		"mask":        strings.Join(masked, "\n") + "\n",
		"mask-timers": "",
		"run-env":     strings.TrimSuffix(environment(env, ""), "\n"),
	}
	for i, s := range p.recipe.Run {
		out[fmt.Sprintf("run/%03d", i+1)] = s + "\n"
	}
	for name, body := range p.finalFiles() {
		out["final/"+name] = body
	}
	return out
}

// writeTar writes the tar that customize.sh unpacks.
func (p plan) writeTar(w io.Writer) error {
	t := &treeWriter{tw: tar.NewWriter(w), made: map[string]bool{}}
	for _, d := range []string{"work", "workspace", strings.TrimPrefix(p.recipe.Workdir, "/")} {
		t.dir(d)
	}
	if len(p.cas) > 0 {
		var bundle bytes.Buffer
		for _, ca := range p.cas {
			t.file(path.Join(hostCADir, ca.Name), 0o644, string(ca.PEM))
			bundle.Write(bytes.TrimSpace(ca.PEM))
			bundle.WriteByte('\n')
		}
		t.file(strings.TrimPrefix(hostCABundle, "/"), 0o644, bundle.String())
	}
	t.file("etc/systemd/system/warren-booted.service", 0o644, guestFile("warren-booted.service"))
	for _, s := range p.recipe.Services {
		if s.Unit != "" {
			t.file("etc/systemd/system/"+s.Name, 0o644, s.Unit)
		}
	}
	for _, d := range p.fetched {
		t.archive(d.RecipeDownload, d.file)
	}
	for _, f := range p.recipe.Files {
		mode := int64(0o644)
		if f.Mode != "" {
			mode, _ = strconv.ParseInt(f.Mode, 8, 32) // checked when parsed
		}
		t.file(strings.TrimPrefix(f.Path, "/"), mode, f.Content)
	}
	lists := p.lists()
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		t.file(".warren/"+name, 0o644, lists[name])
	}
	if t.err != nil {
		return fmt.Errorf("files of the recipe: %w", t.err)
	}
	return t.tw.Close()
}

// treeWriter writes files to a tar, and each directory that the recipe itself
// adds once. tar creates other directories when it unpacks, so that existing
// directories keep the owners and modes of their packages.
type treeWriter struct {
	tw   *tar.Writer
	made map[string]bool
	err  error
}

func (t *treeWriter) dir(name string) {
	if t.err != nil || name == "" || t.made[name] {
		return
	}
	t.made[name] = true
	t.err = t.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: time.Unix(guestEpoch, 0)})
}

func (t *treeWriter) file(name string, mode int64, body string) {
	if t.err != nil {
		return
	}
	t.err = t.tw.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(body)), ModTime: time.Unix(guestEpoch, 0), Format: tar.FormatGNU,
	})
	if t.err == nil {
		_, t.err = io.WriteString(t.tw, body)
	}
}
