// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/internal/receipt"
	"github.com/warren-vm/warren/vm"
)

// maxReceipt bounds a receipt that is read.
const maxReceipt = 256 << 20

type receiptOptions struct {
	out  string
	key  string
	json bool
}

func newReceipt(a *app) *cobra.Command {
	o := &receiptOptions{}
	cmd := &cobra.Command{
		Use:   "receipt VM",
		Short: "Write a signed document of what a VM did",
		Long: `Write the receipt of a VM: one signed document with every audit record about it, and the proof that each is in the
server's log. It works after the VM was removed, by its id. "warren receipt verify" checks it without the server.`,
		Example: "  warren receipt box -o box.receipt.json\n  warren receipt verify box.receipt.json",
		Args:    args(1, 1, "of which VM?"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.receipt(cmd.Context(), list[0], o)
		},
		ValidArgsFunction: a.completeVMs,
	}
	cmd.Flags().StringVarP(&o.out, "output", "o", "", "write to this file (default: standard output)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON; it is always JSON")
	cmd.AddCommand(newReceiptVerify(a))
	return cmd
}

func (a *app) receipt(ctx context.Context, ref string, o *receiptOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.Receipt(ctx, ref)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if o.out == "" || o.out == "-" {
		a.io.printf("%s", data)
		return nil
	}
	if err := os.WriteFile(o.out, data, 0o600); err != nil {
		return vm.Errorf(vm.Invalid, o.out, "the receipt cannot be written: %w", err)
	}
	a.io.printf("%s of %s, signed up to record %d\n", counted(len(r.Lines), "record"), printable(string(r.VM)), r.Checkpoint.Seq)
	a.partial(r.Summary)
	return nil
}

// partial says that a receipt has not all records.
func (a *app) partial(s vm.ReceiptSummary) {
	if s.Partial {
		a.io.printf("note: it is partial: others acted on the VM, too, and only an administrator's receipt has their records\n")
	}
}

func newReceiptVerify(a *app) *cobra.Command {
	o := &receiptOptions{}
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check a receipt without a server",
		Long: `Check a receipt: its signature, the signed checkpoint, the proof of each record, and that its summary says what the
records say. Give --key with the fingerprint that the server's operator told you: without it, the receipt only
proves that it was not changed since somebody signed it. If it is broken, the exit status is 13.`,
		Example: "  warren receipt verify box.receipt.json --key SHA256:...",
		Args:    args(1, 1, "which file?"),
		RunE: func(_ *cobra.Command, list []string) error {
			return a.receiptVerify(list[0], o)
		},
	}
	cmd.Flags().StringVar(&o.key, "key", "", "public key, or its fingerprint, that must have signed it")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) receiptVerify(name string, o *receiptOptions) error {
	st, err := os.Stat(name)
	if err == nil && st.Size() > maxReceipt {
		return vm.Errorf(vm.Limit, name, "larger than %d MiB", maxReceipt>>20)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return vm.Errorf(vm.NotFound, name, "cannot be read: %w", err)
	}
	r, err := receipt.Verify(data, o.key)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(r)
	}
	a.io.printf("%s of %s, all in the log that was signed\n", counted(r.Records, "record"), printable(string(r.VM)))
	a.partial(r.Summary)
	a.io.printf("signed by   %s at %s, up to record %d\n", r.Fingerprint, r.At.Format(time.RFC3339), r.Checkpoint)
	for _, out := range r.Summary.Out {
		a.io.printf("%-11s %s %s %s\n", out.Op, printable(out.What), printable(out.To), printable(out.SHA256))
	}
	for _, s := range r.Summary.Secrets {
		a.io.printf("secret      %s\n", printable(s))
	}
	for _, v := range sortedNames(r.Summary.Locked) {
		a.io.printf("volume      %s %s\n", printable(v), printable(r.Summary.Locked[v]))
	}
	if !r.Trusted {
		a.io.printf("note: compare the fingerprint with the one that the server's operator told you, or give it with --key\n")
	}
	return nil
}

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
