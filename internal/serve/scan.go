// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"io"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/scan"
	"github.com/warren-vm/warren/vm"
)

// uploads judges uploads: by the confined program, and then by clamd if that is set up.
type uploads struct {
	*reader.Scanner
	clamd clamd // "" = none
}

func verdict(v scan.Verdict) objects.Verdict {
	switch {
	case v.Refused != "":
		return objects.Verdict{State: vm.Refused, Reason: v.Refused}
	case v.More:
		return objects.Verdict{State: vm.Unscanned}
	}
	return objects.Verdict{State: vm.Clean, Reason: v.Note}
}

// Quick is objects.Scanner's: it compares the first bytes with those of known types, and
// decodes nothing. With clamd every upload is read whole.
func (u uploads) Quick(_ context.Context, in objects.ScanInput) (objects.Verdict, error) {
	out := verdict(scan.Quick(scan.Input(in)))
	if u.clamd != "" && out.State == vm.Clean && in.Size > 0 {
		out.State = vm.Unscanned
	}
	return out, nil
}

// Whole is objects.Scanner's.
func (u uploads) Whole(ctx context.Context, in objects.ScanInput, body io.ReaderAt) (objects.Verdict, error) {
	v, err := u.Scanner.Whole(ctx, scan.Input(in), body)
	out := verdict(v)
	if err != nil || out.State != vm.Clean || u.clamd == "" {
		return out, err
	}
	found, err := u.clamd.scan(ctx, io.NewSectionReader(body, 0, in.Size))
	if err == nil && found != "" {
		out = objects.Verdict{State: vm.Refused, Reason: "clamd has found " + found}
	}
	return out, err
}
