// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/folder"
	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// pathRules are the VM's path rules.
func (m *machine) pathRules() []vm.PathRule {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spec.Paths
}

// rule gives a folder that is mounted at a path its rules. Kind Unsupported when the folder
// cannot hold them; then it keeps those that it has.
func (m *machine) rule(s source, at string, list []vm.PathRule) error {
	set, err := pathrule.Compile(list)
	if err == nil && set.Reaches(at) {
		err = folder.HoldsRules(s.dir)
	}
	if err != nil {
		return err
	}
	s.rules.Set(set)
	return nil
}

// setPaths applies path rules to every folder, also for a monitor that re-attaches.
func (m *machine) setPaths(ctx context.Context, list []vm.PathRule) error {
	if err := m.folders.begin(ctx); err != nil {
		return err
	}
	defer m.folders.done()
	m.folders.mu.Lock()
	served := slices.Clone(m.folders.list)
	m.folders.mu.Unlock()
	old := m.pathRules()
	for i, f := range served {
		if f.from.dir == nil {
			continue
		}
		if err := m.rule(f.from, f.Path, list); err != nil {
			for _, before := range served[:i] {
				if before.from.dir != nil {
					_ = m.rule(before.from, before.Path, old) // it held them before
				}
			}
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spec.Paths = list
	return m.save(m.spec.Network)
}

// askPath asks the server for a decision about a path.
func (m *machine) askPath(ctx context.Context, path string, write bool) (time.Duration, error) {
	var out vm.PathDecision
	err := m.tellServer(ctx, "/path-ask", vm.PathQuestion{Path: path, Write: write}, &out)
	switch {
	case err != nil:
		m.log.Warn("no decision about a path", "path", path, "err", err)
		return 0, vm.Errorf(vm.Unavailable, path, "no decision: %w", err) // also when the server refused to ask
	case !out.Allowed:
		return 0, vm.Errorf(vm.Denied, path, "the access was denied")
	}
	return time.Duration(out.Seconds) * time.Second, nil
}

func (s *server) setPaths(w http.ResponseWriter, r *http.Request) {
	var list []vm.PathRule
	err := readJSONBody(r, &list)
	if err == nil {
		err = s.m.setPaths(r.Context(), list)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

// SetPaths applies path rules to the folders of the machine. Kind Unsupported when a folder
// cannot hold rules.
func (c *Client) SetPaths(ctx context.Context, list []vm.PathRule) error {
	ctx, cancel := within(ctx, callDeadline)
	defer cancel()
	return c.call(ctx, "PUT", "/paths", list, nil)
}
