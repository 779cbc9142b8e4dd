// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// runOutput is a path that a run copies back, from --output.
type runOutput struct {
	typed string // as in the command line
	path  string // in the VM
	local string // on this host
}

// broughtOutput describes an output for --json.
type broughtOutput struct {
	copied
	Error *api.ErrorBody `json:"error,omitempty"` // why it was not copied back
}

// runOutputs reads --output PATH[:LOCAL], where a relative PATH starts in the
// command's directory. It refuses, before the VM is made, a LOCAL that could not
// be written.
func runOutputs(flags []string, cwd string) ([]runOutput, error) {
	var out []runOutput
	taken := map[string]string{} // by the destination of the copy
	for _, f := range flags {
		from, to, named := strings.Cut(f, ":")
		if from == "" || named && to == "" {
			return nil, usage("--output %s is not a path of the VM", printable(f)).WithHint("write PATH or PATH:LOCAL, such as out.csv or /work/report:report")
		}
		o := runOutput{typed: from, path: from, local: or(to, ".")}
		if cwd != "" && !strings.HasPrefix(from, "/") {
			o.path = cwd + "/" + from
		}
		at, err := outside(o.local, o.path, false)
		if err != nil {
			return nil, err
		}
		dir := filepath.Dir(at)
		if st, err := os.Stat(dir); err != nil {
			return nil, localError(dir, err)
		} else if !st.IsDir() {
			return nil, vm.Errorf(vm.Invalid, printable(dir), "on this host: is not a directory")
		}
		if other, is := taken[at]; is {
			return nil, usage("--output %s and --output %s would both become %s", printable(other), printable(f), printable(at)).
				WithHint("give one of them another destination: PATH:LOCAL")
		}
		taken[at] = f
		out = append(out, o)
	}
	return out, nil
}

// withOutputs runs a command with do and copies its outputs back once it has
// ended, also after a failure. The command's status counts; a missing output
// changes it only if the command succeeded.
func (a *app) withOutputs(ctx context.Context, cp *copying, name string, list []runOutput, do func() error) ([]broughtOutput, error) {
	err := do()
	var status exitStatus
	if err != nil && !errors.As(err, &status) {
		if len(list) > 0 && vm.KindOf(err) != vm.Cancelled {
			a.io.notef("nothing was copied back from the VM")
		}
		return nil, err
	}
	var got []broughtOutput
	var missing error
	for _, o := range list {
		done, oerr := cp.out(ctx, place{vm: name, path: o.path}, o.local)
		done.From = o.typed // the VM is about to go
		b := broughtOutput{copied: done}
		if oerr != nil {
			if vm.KindOf(oerr) == vm.Cancelled {
				return got, oerr
			}
			oerr = outputError(o.typed, oerr)
			a.complain(oerr)
			body := api.EncodeError(oerr, "")
			b.To, b.LeftOut, b.Error, missing = o.local, []leftOut{}, &body, errors.Join(oerr, errReported)
		}
		a.io.tellLeftOut(done)
		got = append(got, b)
	}
	if err == nil {
		err = missing
	}
	return got, err
}

// outputError says why an output was not copied back. It leaves out the VM's
// generated name, because the VM is deleted by then.
func outputError(path string, err error) error {
	e := *vm.AsError(err)
	if isFileNotFound(err) {
		return vm.Errorf(vm.NotFound, printable(path), "--output: the command has left no such file or directory").WithCode(e.Code, "path", path).
			WithHint("a relative path starts in the command's directory; --output /PATH names any other path")
	}
	e.Hint = strings.ReplaceAll(e.Hint, "warren cp", "warren run")
	return &e
}
