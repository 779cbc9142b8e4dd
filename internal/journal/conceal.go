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

// Conceal returns err for a user: it shortens paths in the server's directories to the
// part inside them. An error without such paths is returned unchanged. The server's log
// has the full paths.
func (j *Journal) Conceal(err error) error {
	if err == nil {
		return nil
	}
	was := vm.AsError(err)
	out := *was
	out.Subject, out.Hint, out.Fields = j.ConcealText(was.Subject), j.ConcealText(was.Hint), maps.Clone(was.Fields)
	changed := out.Subject != was.Subject || out.Hint != was.Hint
	for _, name := range []string{"message", "reason", "details"} { // others are names, or come from a guest
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

// ConcealText removes the server's directories from the paths in a text.
func (j *Journal) ConcealText(text string) string {
	if !strings.Contains(text, "/") {
		return text
	}
	for _, dir := range j.hidden {
		text = strings.ReplaceAll(text, dir+"/", "")
	}
	return text
}

// hiddenDirs returns the directories to remove, as given and with symlinks resolved, the
// longer ones first.
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
