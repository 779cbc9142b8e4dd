// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// exportPage is the number of records that are asked for at once.
const exportPage = 1000

func newAuditExport(a *app) *cobra.Command {
	o := &auditOptions{}
	cmd := &cobra.Command{
		Use: "export", Short: "Print audit records as OCSF, one JSON object a line, newest first",
		Long: `Print audit records in the Open Cybersecurity Schema Framework, version ` + ocsfVersion + `: connections as Network
Activity (4001), everything else as API Activity (6003). What has no field there is in "unmapped".`,
		Example: "  warren audit export --since 24h\n  warren audit export --vm box --verb connection",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.auditExport(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.filterFlags(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON; it is always JSON")
	return cmd
}

func (a *app) auditExport(ctx context.Context, o *auditOptions) error {
	if err := o.times(); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	o.q.Limit = exportPage
	for {
		l, err := c.Audit(ctx, o.q)
		if err != nil || len(l) == 0 {
			return err
		}
		for _, r := range l {
			data, err := json.Marshal(ocsf(r))
			if err != nil {
				return err
			}
			a.io.printf("%s\n", data)
		}
		o.q.After = l[len(l)-1].Seq
	}
}

// ocsfVersion is the version of the schema that ocsf follows: https://schema.ocsf.io/1.3.0.
const ocsfVersion = "1.3.0"

// The classes, categories and ids of the schema.
const (
	ocsfAPI, ocsfApplication = 6003, 6
	ocsfNetwork, ocsfTraffic = 4001, 4
	ocsfInfo                 = 1
	ocsfSuccess, ocsfFailure = 1, 2
	ocsfUnknown              = 0
	ocsfOther                = 99
	ocsfOpen, ocsfRefuse     = 1, 5 // activities of Network Activity
)

// ocsf returns a record as an event of the schema.
func ocsf(r api.AuditRecord) map[string]any {
	class, category, activity := ocsfAPI, ocsfApplication, activityOf(r.Op)
	if r.Op == vm.OpConnection {
		class, category, activity = ocsfNetwork, ocsfTraffic, ocsfOpen
		if r.Outcome != "ok" {
			activity = ocsfRefuse
		}
	}
	status := ocsfFailure
	switch r.Outcome {
	case "ok":
		status = ocsfSuccess
	case "pending":
		status = ocsfUnknown
	}
	e := map[string]any{
		"class_uid": class, "category_uid": category, "activity_id": activity, "type_uid": class*100 + activity,
		"severity_id": ocsfInfo, "status_id": status, "time": r.Time.UnixMilli(), "message": string(r.Op) + " " + printable(r.Subject),
		"metadata": map[string]any{
			"version": ocsfVersion, "uid": r.ID, "sequence": r.Seq, "correlation_uid": string(r.RequestID),
			"product": map[string]any{"name": "Warren", "vendor_name": "Warren", "version": api.Version},
		},
		"unmapped": unmapped(r),
	}
	if r.Error != "" {
		e["status_detail"] = r.Error
	}
	if !r.EndedAt.IsZero() {
		e["end_time"] = r.EndedAt.UnixMilli()
	}
	if class == ocsfNetwork {
		ocsfConnection(e, r)
		return e
	}
	e["actor"] = map[string]any{"user": map[string]any{"uid": or(actorOf(r), string(r.Actor.Account)), "account": map[string]any{"uid": string(r.Actor.Account)}}}
	e["api"] = map[string]any{"operation": string(r.Op), "request": map[string]any{"uid": string(r.RequestID)}}
	e["src_endpoint"] = map[string]any{"uid": or(string(r.Actor.VM), or(actorOf(r), "warren"))}
	e["resources"] = []any{map[string]any{"uid": or(string(r.VM), r.Subject), "type": "vm"}}
	return e
}

// ocsfConnection adds what Network Activity has.
func ocsfConnection(e map[string]any, r api.AuditRecord) {
	text := func(name string) string { s, _ := r.Detail[name].(string); return s }
	to := map[string]any{"hostname": or(text("name"), text("dest"))}
	if host, port, ok := cutLast(text("dest")); ok {
		to["ip"] = host
		if n, err := strconv.Atoi(port); err == nil {
			to["port"] = n
		}
	}
	e["src_endpoint"], e["dst_endpoint"] = map[string]any{"uid": string(r.VM)}, to
	e["connection_info"] = map[string]any{"protocol_name": or(text("proto"), "tcp"), "direction_id": 2}
	e["traffic"] = map[string]any{"bytes_out": r.Detail["up"], "bytes_in": r.Detail["down"]}
}

// activityOf is the activity of API Activity: create, read, update or delete.
func activityOf(op vm.Op) int {
	switch op {
	case vm.OpCreate, vm.OpFork, vm.OpSnapshot, vm.OpVolumeCreate, vm.OpKeyCreate, vm.OpTokenCreate, vm.OpAccountCreate, vm.OpIdentityCreate, vm.OpRepoCreate, vm.OpBucketCreate, vm.OpObjectPut:
		return 1
	case vm.OpRead, vm.OpObjectRead, vm.OpRepoRead, vm.OpFetch, vm.OpDiff:
		return 2
	case vm.OpNetwork, vm.OpResize, vm.OpVMRename, vm.OpLabel, vm.OpAmend, vm.OpGrant, vm.OpWrite, vm.OpQuota:
		return 3
	case vm.OpDelete, vm.OpRemove, vm.OpVolumeRemove, vm.OpKeyRevoke, vm.OpTokenRevoke, vm.OpAccountRemove, vm.OpIdentityDelete, vm.OpRepoRemove, vm.OpBucketRemove, vm.OpObjectRemove, vm.OpAuditPrune:
		return 4
	}
	return ocsfOther
}

// unmapped is what the schema has no field for.
func unmapped(r api.AuditRecord) map[string]any {
	out := map[string]any{"vm": string(r.VM), "outcome": r.Outcome}
	for name, text := range map[string]string{"subject": r.Subject, "generation": string(r.Generation), "networkPolicy": r.Network, "right": r.Right} {
		if text != "" {
			out[name] = text
		}
	}
	maps.Copy(out, r.Detail)
	return out
}

func cutLast(s string) (host, port string, ok bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == ':' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// detailText is a value of a record's detail for people.
func detailText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
