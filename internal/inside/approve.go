// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

// approved has a call approved before it enters the VM, where the caller's permission needs
// that; see access.Approve. A verb that forgets it is refused when it begins its audit
// record.
func (in *Inside) approved(ctx context.Context, c *vm.Call, ref string, act access.Act) error {
	if c.Actor.Identity == "" {
		return nil
	}
	rec, err := in.cfg.Engine.Find(c.Actor, ref)
	if err == nil {
		err = in.cfg.Access.Approve(ctx, c, rec, act)
	}
	return vm.WithOp(act.Verb, ref, err)
}

// dials is approved for a verb without an audit record: a connection that a program in the
// guest may take for a command.
func (in *Inside) dials(ctx context.Context, c *vm.Call, ref, what string, s vm.SocketSpec) error {
	return in.approved(ctx, c, ref, access.Act{Verb: vm.OpSocket, User: s.User, What: what + " " + s.Network + " " + s.Address, All: s})
}

// facts are what a call does beyond its verb and path. The ask, its digest and the audit record
// have the same ones.
type facts map[string]string

// octal is a mode as people write it.
func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// onPath is the act of a verb on one path.
func onPath(verb vm.Op, user, path string, f facts) access.Act {
	return access.Act{Verb: verb, User: user, What: string(verb) + " " + path, Details: maps.Clone(f)}
}

// execAct describes a command completely.
func execAct(s vm.ExecSpec) access.Act {
	act := access.Act{Verb: vm.OpExec, User: s.User, What: s.Command, All: s, Details: execFacts(s.Cwd, s.Env)}
	if len(s.Argv) > 0 {
		act.What = quoted(s.Argv)
	}
	if s.Stdin {
		act.Details["input"] = "the caller sends it while the command runs; it is not shown"
	}
	if s.Background {
		act.Details["background"] = "yes"
	}
	if s.Timeout > 0 {
		act.Details["timeout"] = strconv.FormatInt(int64(s.Timeout), 10) + " ms"
	}
	return act
}

// execFacts names directory and variables. Values of variables may be secret: only the
// digest of the ask covers them.
func execFacts(cwd string, env map[string]string) map[string]string {
	d := map[string]string{"directory": cwd, "variables": strings.Join(slices.Sorted(maps.Keys(env)), " ")}
	if cwd == "" {
		d["directory"] = "the VM's working directory"
	}
	return d
}

var plainArgument = regexp.MustCompile(`^[a-zA-Z0-9_./:=@%+,-]+$`)

// quoted writes the arguments of a command so that a shell would read the same ones.
func quoted(argv []string) string {
	out := make([]string, len(argv))
	for i, a := range argv {
		if out[i] = a; !plainArgument.MatchString(a) {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// terminalAct describes a new terminal.
func terminalAct(s vm.TerminalSpec) access.Act {
	act := access.Act{Verb: vm.OpTerminal, User: s.User, What: s.Command, All: s, Details: execFacts(s.Cwd, s.Env)}
	if s.Command == "" {
		act.What = "open a terminal with a login shell"
	}
	act.Details["input"] = "what is typed into the terminal is not asked for"
	return act
}

// sample is how many bytes of an upload are read before the decision.
const sample = 256 << 10

// approvedUpload is approved for bytes that enter the guest. An upload of up to 256 KiB is
// read first, so that the ask has its digest, and its text where it is text. It returns the
// reader to continue with.
func (in *Inside) approvedUpload(ctx context.Context, c *vm.Call, ref string, act access.Act, r io.Reader) (io.Reader, error) {
	if c.Actor.Identity == "" {
		return r, nil
	}
	rec, err := in.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return r, vm.WithOp(act.Verb, ref, err)
	}
	if !in.cfg.Access.Asks(c.Actor, rec.ID, act.Verb) {
		return r, nil
	}
	head, err := io.ReadAll(io.LimitReader(r, sample+1))
	if err != nil {
		return r, vm.WithOp(act.Verb, ref, err)
	}
	details := map[string]string{"content": "more than " + strconv.Itoa(sample) + " bytes, which are not read before the decision"}
	if len(head) <= sample {
		sum := sha256.Sum256(head)
		details = map[string]string{"bytes": strconv.Itoa(len(head)), "sha256 of the bytes": hex.EncodeToString(sum[:])}
		if utf8.Valid(head) && !bytes.ContainsRune(head, 0) {
			details["content"] = string(head)
		}
	}
	maps.Copy(details, act.Details)
	act.Details = details
	return io.MultiReader(bytes.NewReader(head), r), vm.WithOp(act.Verb, ref, in.cfg.Access.Approve(ctx, c, rec, act))
}
