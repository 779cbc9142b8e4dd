// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// sshWay is how OpenSSH reaches a server's VMs: a proxy command that sends
// the API key, so that no secret is in an argument or a configuration.
type sshWay struct {
	proxy      string // the command line, without the VM
	alias      string // of the server's host key
	knownHosts string // file
}

// sshWay builds the configuration and writes the server's host key to our
// known_hosts.
func (a *app) sshWay(ctx context.Context, c *client.Client, urlOf, keyFile string) (sshWay, error) {
	var w sshWay
	info, err := c.SSHInfo(ctx)
	if err != nil {
		return w, err
	}
	if strings.ContainsAny(info.HostKey, "\r\n") || len(strings.Fields(info.HostKey)) != 2 {
		return w, vm.Errorf(vm.Corrupt, c.URL(), "its host key is not valid")
	}
	self, err := os.Executable()
	if err != nil {
		return w, vm.Errorf(vm.Internal, "", "this program's own path: %w", err)
	}
	dir, err := a.configDir()
	if err != nil {
		return w, err
	}
	w.knownHosts = filepath.Join(dir, "ssh_known_hosts")
	w.alias = alias(c.URL())
	argv := []string{self, "ssh-proxy"}
	add := func(flag, value string) {
		if value != "" {
			argv = append(argv, flag, value)
		}
	}
	add("--data", or(a.data, a.getenv("WARREN_DATA")))
	add("--url", or(urlOf, a.getenv("WARREN_API_URL")))
	add("--key-file", keyFile)
	w.proxy = strings.ReplaceAll(joinShell(argv), "%", "%%")
	return w, know(w.knownHosts, w.alias, info.HostKey)
}

// alias names a server in known_hosts, by the address of its API.
func alias(server string) string {
	if u, err := url.Parse(server); err == nil {
		server = u.Host
	}
	return "warren-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, server)
}

// know replaces the host key with the one from the API.
func know(path, alias, key string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return vm.Errorf(vm.Internal, path, "%w", err)
	}
	var out bytes.Buffer
	for line := range bytes.Lines(old) {
		if !bytes.HasPrefix(line, []byte(alias+" ")) {
			out.Write(bytes.TrimRight(line, "\n"))
			out.WriteByte('\n')
		}
	}
	out.WriteString(alias + " " + key + "\n")
	if bytes.Equal(old, out.Bytes()) {
		return nil
	}
	return replaceFile(path, out.Bytes(), 0o644)
}

// replaceFile writes one of our files atomically, and makes its directories.
func replaceFile(path string, data []byte, mode os.FileMode) error {
	fail := func(err error) error { return vm.Errorf(vm.Internal, path, "cannot be written: %w", err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".warren-")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fail(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail(err)
	}
	return nil
}

// options are the ssh options for a VM, which must be one word of the shell.
func (w sshWay) options(name string) [][2]string {
	return [][2]string{
		{"ProxyCommand", w.proxy + " " + name},
		{"HostKeyAlias", w.alias},
		{"UserKnownHostsFile", quoteSSH(w.knownHosts)},
		{"GlobalKnownHostsFile", "/dev/null"},
		{"StrictHostKeyChecking", "yes"},
		{"ServerAliveInterval", "30"},
	}
}

// quoteSSH makes one word of a file's name in ssh's configuration.
func quoteSSH(s string) string {
	s = strings.ReplaceAll(s, "%", "%%")
	if strings.ContainsAny(s, " \t\"#") {
		return `"` + s + `"`
	}
	return s
}

type sshConfigOptions struct {
	app          *app
	names        []string
	user, suffix string
	url, keyFile string
	write, json  bool
}

func newSSHConfig(a *app) *cobra.Command {
	o := &sshConfigOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ssh-config [NAME...]",
		Short: "Set up ssh, scp, rsync, git and editors for VMs",
		Long: `Print the part of ~/.ssh/config that makes NAME.warren work for ssh, scp, sftp, rsync, git, VS Code and other
programs that use OpenSSH, without a password. --write writes it. Without names it covers every VM.

  ssh box.warren
  scp -r src box.warren:/work/
  rsync -a box.warren:/work/out .
  git clone box.warren:/srv/repo.git

ssh then calls "warren ssh-proxy", which sends the API key to the server: no key or token is in a file or an
argument. If the key is in WARREN_API_KEY, ssh needs that variable too. An editor that was started from a menu may
lack it: give it a file with the key, --key-file.`,
		Example: `  warren ssh-config --write
  warren ssh-config box >> ~/.ssh/config
  warren ssh-config --write --suffix lab --url https://lab.example:8787 --key-file ~/.lab-key`,
		Args:              args(0, -1, ""),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.names = list
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.user, "user", "l", "root", "Linux user in the guest")
	f.StringVar(&o.suffix, "suffix", "warren", "suffix of the host names, after the dot")
	f.StringVar(&o.url, "url", "", "the server (default $WARREN_API_URL, else this host's)")
	f.StringVar(&o.keyFile, "key-file", "", "file that holds the API key")
	f.BoolVar(&o.write, "write", false, "write it to a separate file that ~/.ssh/config includes")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (o *sshConfigOptions) run(ctx context.Context) error {
	if o.keyFile != "" {
		abs, err := filepath.Abs(o.keyFile)
		if err != nil {
			return vm.Errorf(vm.Invalid, o.keyFile, "%w", err)
		}
		o.keyFile = abs
	}
	c, err := o.app.connectAs(o.url, o.keyFile)
	if err != nil {
		return err
	}
	way, err := o.app.sshWay(ctx, c, o.url, o.keyFile)
	if err != nil {
		return err
	}
	text, err := o.block(way)
	if err != nil {
		return err
	}
	if !o.write {
		if o.json {
			return o.app.io.json(map[string]string{"config": text})
		}
		o.app.io.printf("%s", text)
		return nil
	}
	return o.install(way, text)
}

// block is the part of a configuration.
func (o *sshConfigOptions) block(way sshWay) (string, error) {
	hosts := []string{"*." + o.suffix}
	if len(o.names) > 0 {
		hosts = nil
	}
	for _, n := range o.names {
		hosts = append(hosts, n+"."+o.suffix)
	}
	for _, s := range append([]string{o.user}, hosts...) {
		if strings.ContainsAny(s, " \t\r\n\"#'") || s == "" {
			return "", usage("%s cannot be written into ssh's configuration", printable(s))
		}
	}
	var b strings.Builder
	b.WriteString("# Warren VMs, by `warren ssh-config`\nHost " + strings.Join(hosts, " ") + "\n    User " + o.user + "\n")
	for _, opt := range way.options("%h") {
		b.WriteString("    " + opt[0] + " " + opt[1] + "\n")
	}
	return b.String(), nil
}

// install writes the block next to our known_hosts and adds an Include to the
// top of ~/.ssh/config: below a Host line it would apply only to that host.
func (o *sshConfigOptions) install(way sshWay, text string) error {
	path := filepath.Join(filepath.Dir(way.knownHosts), "ssh_config.d", o.suffix+"-"+way.alias)
	if err := replaceFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	config := filepath.Join(o.app.getenv("HOME"), ".ssh", "config")
	if target, err := filepath.EvalSymlinks(config); err == nil {
		config = target // a symlink stays a symlink
	}
	old, err := os.ReadFile(config)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return vm.Errorf(vm.Internal, config, "%w", err)
	}
	line := "Include " + quoteSSH(filepath.Join(filepath.Dir(path), "*")) + "\n"
	if !bytes.Contains(old, []byte(line)) {
		if err := replaceFile(config, append([]byte(line), old...), 0o600); err != nil {
			return err
		}
	}
	if o.json {
		return o.app.io.json(map[string]string{"config": text, "file": path})
	}
	o.app.io.notef("written to %s, which ~/.ssh/config includes: `ssh NAME.%s`", path, o.suffix)
	return nil
}
