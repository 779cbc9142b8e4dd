// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/hex"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) auditRoutes() []route {
	return []route{
		{"GET", "/v1/audit", key, s.audit, "Audit records, newest first.", nil, api.AuditList{}, false, "vm limit after op actor id since until"},
		{"GET", "/v1/audit/verify", admin, s.auditVerify, "Check the audit chain.", nil, api.AuditReport{}, false, ""},
		{"POST", "/v1/audit/verify", admin, s.auditVerify, "Check the audit chain, and checkpoints that were kept outside against it.", api.VerifyAudit{}, api.AuditReport{}, false, ""},
		{"POST", "/v1/audit/prune", admin, s.auditPrune, "Remove old audit records; the chain still verifies.", api.PruneAudit{}, vm.AuditPruned{}, false, ""},
		{"POST", "/v1/audit/key", admin, s.auditRotateKey, "Let another key sign the audit log.", api.RotateAuditKey{}, api.AuditKey{}, false, ""},
		{"GET", "/v1/receipts/{vm}", key, s.receipt, "The signed receipt of a VM, which may be deleted: its audit records with proofs.", nil, vm.Receipt{}, false, ""},
	}
}

// maxAnchors bounds the body of a verification.
const maxAnchors = 64 << 20

func (s *server) auditVerify(q *request) error {
	var in api.VerifyAudit
	if err := q.decode(&in, maxAnchors); err != nil {
		return err
	}
	if in.AcceptNewLog {
		if err := s.Journal.AuditAccept(q.Context(), q.call); err != nil {
			return err
		}
	}
	r, err := s.Journal.AuditVerify(q.Context(), q.call, in.Anchors)
	if err != nil {
		return err
	}
	return q.ok(r)
}

func (s *server) auditPrune(q *request) error {
	var in api.PruneAudit
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	p, err := s.Journal.AuditPrune(q.Context(), q.call, in.Before)
	if err != nil {
		return err
	}
	return q.ok(p)
}

func (s *server) auditRotateKey(q *request) error {
	var in api.RotateAuditKey
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	hexKey, err := s.Journal.AuditRotateKey(q.Context(), q.call, in.To)
	if err != nil {
		return err
	}
	raw, err := hex.DecodeString(hexKey)
	if err != nil {
		return err
	}
	return q.ok(api.AuditKey{Key: hexKey, Fingerprint: vm.Fingerprint(raw)})
}

// receipt answers with the receipt of a VM. A deleted one is named by its id.
func (s *server) receipt(q *request) error {
	id := vm.ID(q.values["vm"])
	v, err := s.Engine.Get(q.Context(), q.call, string(id))
	switch {
	case err == nil:
		id = v.ID
	case !vm.IsID(string(id)):
		return err
	}
	r, err := s.Evidence.Receipt(q.Context(), q.call, id)
	if err != nil {
		return err
	}
	return q.ok(r)
}

// connectionsOf takes the records of connections from a VM's monitor.
func (s *server) connectionsOf(q *request, v vm.VM) error {
	var in vm.ConnectionBatch
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if err := s.Evidence.Connections(q.Context(), q.call, v, in); err != nil {
		return err
	}
	return q.ok(okBody{})
}
