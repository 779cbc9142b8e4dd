// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// maxLayers bounds the layers of one request.
const maxLayers = 32

// Plan returns the layers of a request, innermost first, ready to build: checked,
// with a size, and with units that require no removed unit.
func Plan(layers []Layer) ([]Layer, error) {
	if len(layers) > maxLayers {
		return nil, bad("spec", "%d layers are more than %d", len(layers), maxLayers)
	}
	out := slices.Clone(layers)
	gone := map[string]bool{} // units that are removed after their success
	for i := range out {
		l := &out[i]
		if err := l.Check(); err != nil {
			return nil, err
		}
		for _, u := range l.Units {
			if u.Vanishes() {
				gone[UnitName(u.Name)] = true
			}
		}
		ordered, err := inOrder(l.Units)
		if err != nil {
			return nil, err
		}
		l.Units = withoutGone(ordered, gone)
		l.Files = slices.SortedFunc(slices.Values(l.Files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	}
	fillSizes(out)
	return out, nil
}

// withoutGone removes requirements on units that are removed after their success.
// They are started in order and the first failure ends the setup; at the next boot
// the required unit would be missing. After stays: it is ignored if there is no
// such unit.
func withoutGone(units []vm.Unit, gone map[string]bool) []vm.Unit {
	out := make([]vm.Unit, 0, len(units))
	for _, u := range units {
		u.Requires = slices.DeleteFunc(slices.Clone(u.Requires), func(n string) bool { return gone[UnitName(n)] })
		out = append(out, u)
	}
	return out
}

// inOrder sorts units so that each comes after those in its After or Requires;
// otherwise they keep their order.
func inOrder(units []vm.Unit) ([]vm.Unit, error) {
	byName := make(map[string]vm.Unit, len(units))
	for _, u := range units {
		byName[UnitName(u.Name)] = u
	}
	out := make([]vm.Unit, 0, len(units))
	const open, done = 1, 2
	state := map[string]int{}
	var visit func(u vm.Unit) error
	visit = func(u vm.Unit) error {
		name := UnitName(u.Name)
		switch state[name] {
		case open:
			return bad(u.Name, "the service waits for itself")
		case done:
			return nil
		}
		state[name] = open
		for _, list := range [][]string{u.After, u.Requires} {
			for _, n := range list {
				if before, ours := byName[UnitName(n)]; ours {
					if err := visit(before); err != nil {
						return err
					}
				}
			}
		}
		state[name] = done
		out = append(out, u)
		return nil
	}
	for _, u := range units {
		if err := visit(u); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fillSizes gives a layer without a size that of the nearest outer layer that has
// one, else of the nearest inner one. With one size throughout, the VM continues
// the memory of its layer.
func fillSizes(layers []Layer) {
	fields := []func(*vm.Size) *int{
		func(s *vm.Size) *int { return &s.VCPU },
		func(s *vm.Size) *int { return &s.MemoryMiB },
		func(s *vm.Size) *int { return &s.DiskMiB },
	}
	for _, field := range fields {
		for i := len(layers) - 2; i >= 0; i-- {
			if v := field(&layers[i].Size); *v == 0 {
				*v = *field(&layers[i+1].Size)
			}
		}
		for i := 1; i < len(layers); i++ {
			if v := field(&layers[i].Size); *v == 0 {
				*v = *field(&layers[i-1].Size)
			}
		}
	}
}

// Keys returns the keys of layers on a source, and whether each must be built
// again: because of its own setting or that of a layer below it.
func Keys(source string, layers []Layer) (keys []string, afresh []bool) {
	skip := false
	for _, l := range layers {
		source = l.Key(source)
		skip = skip || l.SkipCache
		keys, afresh = append(keys, source), append(afresh, skip)
	}
	return keys, afresh
}
