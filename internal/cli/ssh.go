// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// become replaces this program by another one; tests replace become.
var become = syscall.Exec

type sshOptions struct {
	app                    *app
	name, user             string
	argv                   []string
	local, remote, dynamic []string
	options                []string
	agent, noCommand       bool
	tty, noTTY             bool
}

func newSSH(a *app) *cobra.Command {
	o := &sshOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ssh NAME [flags] [-- CMD ARG...]",
		Short: "Connect to a VM with this machine's ssh",
		Long: `Connect to a VM with OpenSSH's client, without any setup. It connects through the API, which
authenticates you by the API key and provides the server's host key. A suspended VM wakes. The exit status is
ssh's: that of the command, or 255. One argument is a line for the guest's shell; several are passed unchanged.

"warren ssh-config" sets up ssh, scp, sftp, rsync, git and editors in the same way.

` + aboutWorkdir,
		Example: `  warren ssh box
  warren ssh box -- make -C /src test
  warren ssh box -L 8080:localhost:3000 -N
  warren ssh box --user dev -A
  warren ssh box -o SendEnv=WARREN_SESSION`,
		Annotations:       map[string]string{passes: "yes"},
		Args:              passingArgs(args(1, -1, "which VM? give its name or id; `warren ls` lists VMs")),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.argv = list[0], list[1:]
			return passed(o.run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.user, "user", "l", "root", "Linux user in the guest")
	f.StringArrayVarP(&o.local, "local", "L", nil, "forward a port of this machine to the guest: PORT:HOST:PORT; may repeat")
	f.StringArrayVarP(&o.remote, "remote", "R", nil, "forward a port of the guest to this machine: PORT:HOST:PORT; may repeat")
	f.StringArrayVarP(&o.dynamic, "dynamic", "D", nil, "a SOCKS proxy into the guest on a port; may repeat")
	f.StringArrayVarP(&o.options, "option", "o", nil, "an option of ssh: NAME=VALUE; may repeat")
	f.BoolVarP(&o.agent, "agent", "A", false, "let the guest use this user's SSH agent")
	f.BoolVarP(&o.noCommand, "no-command", "N", false, "run nothing, only forward")
	f.BoolVarP(&o.tty, "tty", "t", false, "give a command a terminal")
	f.BoolVarP(&o.noTTY, "no-tty", "T", false, "give a shell none")
	return cmd
}

func (o *sshOptions) run(ctx context.Context) error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return vm.Errorf(vm.Unsupported, "ssh", "is not installed").WithHint("install it (`apt-get install openssh-client`), or use `warren shell %s`", o.name)
	}
	if strings.HasPrefix(o.name, "-") {
		return usage("%s is not a VM's name", printable(o.name))
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	way, err := o.app.sshWay(ctx, c, "", "")
	if err != nil {
		return err
	}
	argv := []string{"ssh"}
	for _, opt := range way.options(quoteShell(o.name)) {
		argv = append(argv, "-o", opt[0]+"="+opt[1])
	}
	argv = append(argv, "-l", o.user)
	for flag, values := range map[string][]string{"-L": o.local, "-R": o.remote, "-D": o.dynamic, "-o": o.options} {
		for _, v := range values {
			argv = append(argv, flag, v)
		}
	}
	for flag, on := range map[string]bool{"-A": o.agent, "-N": o.noCommand, "-t": o.tty, "-T": o.noTTY} {
		if on {
			argv = append(argv, flag)
		}
	}
	argv = append(argv, "--", o.name)
	switch len(o.argv) {
	case 0:
	case 1: // a line for the shell, as ssh has it
		argv = append(argv, o.argv[0])
	default:
		argv = append(argv, joinShell(o.argv))
	}
	return become(program, argv, os.Environ())
}

// joinShell quotes arguments and joins them to one line for a shell; ssh
// would join them without quotes.
func joinShell(argv []string) string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = quoteShell(a)
	}
	return strings.Join(quoted, " ")
}

// quoteShell makes one word of a shell.
func quoteShell(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=@+,%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

type sshProxyOptions struct {
	app                *app
	name, url, keyFile string
}

func newSSHProxy(a *app) *cobra.Command {
	o := &sshProxyOptions{app: a}
	cmd := &cobra.Command{
		Use:   "ssh-proxy NAME",
		Short: "Connect to a VM's SSH, for ssh's ProxyCommand",
		Long: `Carry standard input and output to the SSH gateway of a VM through the API. ssh calls it; "warren ssh-config"
writes the configuration for that. The part of NAME after the first dot is ignored.`,
		Example:           "  ssh -o ProxyCommand='warren ssh-proxy %h' root@box",
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, _, _ = strings.Cut(list[0], ".")
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.url, "url", "", "the server (default $WARREN_API_URL, else this host's)")
	cmd.Flags().StringVar(&o.keyFile, "key-file", "", "file that holds the API key (default $WARREN_API_KEY, else this host's admin key)")
	return cmd
}

func (o *sshProxyOptions) run(ctx context.Context) error {
	c, err := o.app.connectAs(o.url, o.keyFile)
	if err != nil {
		return err
	}
	conn, err := c.SSH(ctx, o.name)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer conn.Close()
	go func() { // ends with the process: nothing can interrupt a read of standard input
		_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{o.app.io.in}, make([]byte, 64<<10))
		_ = conn.Close()
	}()
	_, err = io.CopyBuffer(struct{ io.Writer }{o.app.io.out}, struct{ io.Reader }{conn}, make([]byte, 64<<10))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil // ssh reports the error of a connection
}

// connectAs is connect to another server, or with a key from a file.
func (a *app) connectAs(url, keyFile string) (*client.Client, error) {
	if url == "" && keyFile == "" {
		return a.client()
	}
	var key string
	if keyFile != "" {
		data, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, keyFile, "the key cannot be read: %w", err)
		}
		key = string(data)
	}
	getenv := a.getenv
	b := *a
	b.getenv = func(name string) string {
		switch {
		case name == "WARREN_API_URL" && url != "":
			return url
		case name == "WARREN_API_KEY" && key != "":
			return key
		}
		return getenv(name)
	}
	return b.connect()
}

// configDir is the directory for files of the command line.
func (a *app) configDir() (string, error) {
	if dir := a.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "warren"), nil
	}
	home := a.getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", vm.Errorf(vm.Invalid, "HOME", "is not set").WithHint("set HOME or XDG_CONFIG_HOME")
	}
	return filepath.Join(home, ".config", "warren"), nil
}
