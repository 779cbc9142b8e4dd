// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Users see a guest's errors as Warren's own. So only errors pass that an agent has a
// reason to send: never that a key is wrong, a quota is exhausted or a record is damaged.

// said are the codes that an agent may send, each with its kind and fields.
var said = map[string]struct {
	kind   vm.Kind
	fields []string
}{
	"FILES_BAD_REQUEST":      {vm.Invalid, nil},
	"FILE_NOT_FOUND":         {vm.NotFound, []string{"path"}},
	"USER_NOT_FOUND":         {vm.NotFound, []string{"username"}},
	"PROCESS_NOT_FOUND":      {vm.NotFound, []string{"processId"}},
	"MOUNT_PATH_INVALID":     {vm.Invalid, nil},
	"MOUNT_PATH_NOT_EMPTY":   {vm.Exists, nil},
	"VOLUME_BUSY":            {vm.Busy, []string{"processes"}},
	"INVALID_SESSION_ID":     {vm.Invalid, []string{"sessionId"}},
	"SESSION_CAP_REACHED":    {vm.Limit, []string{"limit"}},
	"SESSION_ALREADY_EXISTS": {vm.Exists, []string{"sessionId"}},
	"SESSION_EXPIRED":        {vm.NotFound, []string{"sessionId"}},
	"SESSION_NOT_FOUND":      {vm.NotFound, []string{"sessionId"}},
	"SESSION_USER_MISMATCH":  {vm.Denied, []string{"sessionId"}},
}

// saidOfPaths are the codes that it may send in answer to a request with path rules only.
var saidOfPaths = []string{"PATH_ASK", "PATH_DENIED", "PATH_READ_ONLY"}

// plain are the kinds that an agent may send without a code in answer to any request.
var plain = []vm.Kind{vm.Invalid, vm.NotFound, vm.Exists, vm.WrongState, vm.NoSpace, vm.Unsupported, vm.GuestFault}

// special are the kinds that it may send in answer to some requests only. They
// could look like the host's, so the message names the guest as the origin.
var special = map[string][]vm.Kind{
	"/exec": {vm.Limit}, "/start": {vm.Limit}, "/pty": {vm.Limit}, "/watch": {vm.Limit},
	"/dial": {vm.Unavailable}, "/listen": {vm.Unavailable, vm.Limit}, "/accept": {vm.Unavailable},
	"/freeze": {vm.Busy}, "/unmount": {vm.Busy}, "/pty/close": {vm.Busy}, "/pty/send": {vm.Timeout},
}

// Limits of the parts of an error, in bytes.
const (
	maxWords   = 1 << 10 // of a message or a hint
	maxSubject = 4 << 10 // as long as a path may be
	maxListed  = 64      // elements of a list of subjects
	maxName    = 256     // of a name of something in the agent
)

// honest reduces a guest's error to what it may say in answer to a request for path.
func honest(path string, e *vm.Error) *vm.Error {
	out := &vm.Error{Kind: e.Kind, Subject: clean(e.Subject, maxSubject), Msg: clean(e.Msg, maxWords), Hint: clean(e.Hint, maxWords)}
	path, ruled := strings.CutPrefix(path, "/ruled")
	by, known := said[e.Code]
	if ruled && slices.Contains(saidOfPaths, e.Code) {
		by.kind, by.fields, known = vm.Denied, []string{"path", "rule"}, true
	}
	switch {
	case known && by.kind == e.Kind:
		out.Code = e.Code
		for _, name := range by.fields {
			if v, ok := cleanField(e.Fields[name]); ok {
				out = out.WithCode(out.Code, name, v) // none has two
			}
		}
	case e.Code == "" && slices.Contains(plain, e.Kind):
	case e.Code == "" && slices.Contains(special[path], e.Kind):
		out.Msg = "the guest says: " + cmp.Or(out.Msg, "no")
	default:
		out.Kind, out.Hint = vm.GuestFault, ""
		out.Msg = "the guest's agent failed: " + cmp.Or(out.Msg, "without a reason")
	}
	return out
}

// clean returns at most most bytes of a guest's text, without characters that control a terminal.
func clean(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// cleanAll cleans the first elements of a list.
func cleanAll(list []string, most int) (out []string) {
	for _, s := range list[:min(len(list), maxListed)] {
		out = append(out, clean(s, most))
	}
	return out
}

func cleanField(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		return clean(v, maxSubject), true
	case float64, bool:
		return v, true
	case []any:
		list := []string{}
		for _, one := range v[:min(len(v), maxListed)] {
			s, ok := one.(string)
			if !ok {
				return nil, false
			}
			list = append(list, clean(s, maxWords))
		}
		return list, true
	}
	return nil, false
}
