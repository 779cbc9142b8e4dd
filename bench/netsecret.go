// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// netInjected measures small HTTPS requests on an open connection: one that passes, one
// that is read for a rule about paths, and one into which a secret is put. For each of the
// last the server writes an audit record to the disk before it gives the value.
func (b *bench) netInjected(ctx context.Context) error {
	return b.netSection(ctx, (*netBench).injected)
}

func (n *netBench) injected() error {
	const prefix, secret, value, each = "small HTTPS request: ", "bench-token", "the-secret-value-of-the-bench-0123456789", 12
	set := api.SetSecret{Name: secret, Host: outsideName, Header: "Authorization", Value: value}
	if err := n.s.call(n.ctx, "POST", "/v1/secrets", set, nil); err != nil {
		return err
	}
	granted := "/v1/secrets/" + secret + "/vms/" + n.id
	way := vm.NetRule{To: outsideName, Ports: port(tlsPort)}
	byPath := way
	byPath.Paths = []string{"/**"}
	for round := range 1 + max(6, n.n) { // the first one is warm-up
		for _, w := range []struct {
			name   string
			policy netPolicy
			grant  bool
		}{
			{"passed", ruled("passed", way), false},
			{"intercepted", ruled("intercepted", byPath), false},
			{"injected", ruled("injected", way), true},
		} {
			if err := n.set(w.policy); err != nil {
				return err
			}
			o := order{Down: 100}
			if w.grant {
				var use api.SecretVM
				if err := n.s.call(n.ctx, "PUT", granted, nil, &use); err != nil {
					return err
				}
				o.Header = map[string]string{"Authorization": "Bearer " + use.Placeholder}
			}
			d, err := n.https(o, each, w.name != "passed")
			if err != nil {
				return fmt.Errorf("%s%s: %w", prefix, w.name, err)
			}
			if w.grant {
				if got := n.outside.authorization(); got != "Bearer "+value {
					return fmt.Errorf("%s%s: the host got the header %q", prefix, w.name, got)
				}
				if err := n.s.call(n.ctx, "DELETE", granted, nil, nil); err != nil {
					return err
				}
			}
			if s := n.rep.series(prefix+w.name, "ms", bound{}); round > 0 {
				s.Samples = append(s.Samples, d.Ms[2:]...)
			}
		}
	}
	n.compare(prefix+"time, ", " / ", "intercepted", "passed", prefix, bound{})
	n.compare(prefix+"time, ", " / ", "injected", "passed", prefix, bound{})
	return nil
}
