// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Conceal returns err as it may be shown to a user: with names within the server's
// directories, and not where on the host these are. An error that names none is
// returned as it is. The operator finds the rest in the server's log.
func (j *Journal) Conceal(err error) error {
	if err == nil {
		return nil
	}
	was := vm.AsError(err)
	out := *was
	out.Subject, out.Hint, out.Fields = j.ConcealText(was.Subject), j.ConcealText(was.Hint), maps.Clone(was.Fields)
	changed := out.Subject != was.Subject || out.Hint != was.Hint
	for _, name := range []string{"message", "reason", "details"} { // others are names, or what a guest has said
		if s, ok := was.Fields[name].(string); ok {
			out.Fields[name] = j.ConcealText(s)
			changed = changed || out.Fields[name] != s
		}
	}
	why := vm.Error{Kind: was.Kind, Msg: was.Msg, Err: was.Err}
	if out.Msg, out.Err = j.ConcealText(why.Error()), nil; out.Msg == why.Error() && !changed {
		return err
	}
	return &out
}

// ConcealText takes the server's directories out of the names in a text.
func (j *Journal) ConcealText(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	for _, dir := range j.hidden {
		text = strings.ReplaceAll(text, dir+"/", "")
	}
	return text
}

// hiddenDirs are the directories that no answer names, as they are named and
// without links, the longer names first.
func hiddenDirs(dirs ...string) (list []string) {
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			abs = filepath.Clean(dir)
		}
		list = append(list, filepath.Clean(dir), abs)
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			list = append(list, real)
		}
	}
	list = slices.DeleteFunc(list, func(dir string) bool { return !strings.HasPrefix(dir, "/") || dir == "/" })
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(list)
}
