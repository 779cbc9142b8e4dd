// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// forwarding is one local port and where it leads.
type forwarding struct{ local, guest uint16 }

type forwardOptions struct {
	name  string
	ports []forwarding
	json  bool
}

func newForward(a *app) *cobra.Command {
	o := &forwardOptions{}
	cmd := &cobra.Command{
		Use: "forward NAME [LOCAL:]PORT...", Short: "Make ports of a VM available on localhost",
		Example: "  warren forward box 3000\n  warren forward box 8080:3000 5433:5432",
		Long:    "Listen on localhost and pass each connection to a port of the VM, until ^C.\nThis also reaches servers that listen only on the VM's 127.0.0.1 or [::1].\nA connection wakes a suspended VM.",
		Args:    args(2, -1, "which ports of which VM? warren forward NAME 8080:3000"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			for _, s := range list[1:] {
				f, err := parseForwarding(s)
				if err != nil {
					return err
				}
				o.ports = append(o.ports, f)
			}
			return a.forward(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON object a port")
	return cmd
}

func parseForwarding(s string) (forwarding, error) {
	local, guest, two := strings.Cut(s, ":")
	if !two {
		guest = local
	}
	l, err := portArg(local)
	if err != nil {
		return forwarding{}, err
	}
	g, err := portArg(guest)
	return forwarding{l, g}, err
}

func portArg(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, usage("%s is not a port", printable(s)).WithHint("give a number from 1 to 65535")
	}
	return uint16(n), nil
}

func (a *app) forward(ctx context.Context, o *forwardOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if _, err := c.Get(ctx, o.name); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, f := range o.ports {
		addr := net.JoinHostPort("127.0.0.1", itoa(int(f.local)))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			return vm.Errorf(vm.Busy, addr, "cannot listen there: %w", err).WithHint("choose another local port: LOCAL:%d", f.guest)
		}
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		defer l.Close()
		if o.json {
			if err := a.io.line(map[string]any{"vm": o.name, "local": f.local, "port": f.guest}); err != nil {
				return err
			}
		} else {
			a.io.printf("http://localhost:%d forwards to port %d of %s\n", f.local, f.guest, printable(o.name))
		}
		wg.Go(func() { a.accept(ctx, c, l, o.name, f.guest) }) // ends with the listener
	}
	<-ctx.Done()
	return nil
}

// accept forwards connections until the listener is closed.
func (a *app) accept(ctx context.Context, c *client.Client, l net.Listener, name string, port uint16) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				a.io.tellf("%s: %s", l.Addr(), err)
			}
			return
		}
		wg.Go(func() { // ends with either end or ctx
			defer conn.Close()
			guest, err := c.DialPort(ctx, name, port)
			if err != nil {
				a.io.tellf("port %d: %s", port, err)
				return
			}
			defer guest.Close()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			splice(conn, guest)
		})
	}
}

// splice copies both ways until either end closes.
func splice(a, b net.Conn) {
	done := make(chan struct{})
	go func() { // ends when b is closed
		_, _ = io.Copy(a, b)
		_ = a.Close()
		close(done)
	}()
	_, _ = io.Copy(b, a)
	_ = b.Close()
	<-done
}
