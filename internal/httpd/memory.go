// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) memoryRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/memory", key, s.memory, "The agent's memory of the VM: repository, branch, newest commit, what is left out.", nil, vm.Memory{}, false, ""},
		{"POST", "/v1/vms/{vm}/memory", key, s.enableMemory, "Give the VM a memory: fill /memory from a repository, and commit it at quiet moments from now on. Starts the VM.", api.EnableMemory{}, vm.Memory{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/memory", key, s.disableMemory, "End the commits of the memory; repository and files stay.", nil, vm.Memory{}, false, ""},
		{"POST", "/v1/vms/{vm}/memory/commit", key, s.commitMemory, "Commit the memory now; does not wake the VM.", api.CommitMemory{}, vm.Memory{}, false, ""},
		{"GET", "/v1/vms/{vm}/memory/log", key, s.memoryLog, "Commits of the memory, newest first.", nil, api.MemoryLog{}, false, "limit"},
		{"GET", "/v1/vms/{vm}/memory/commits/{commit}", key, s.showMemory, "What a commit of the memory changed, as a patch; with path, that file as it was.", nil, nil, true, "path"},
		{"POST", "/v1/vms/{vm}/memory/rollback", key, s.rollbackMemory, "Put the files of an earlier commit back; what was there is committed first. Starts the VM.", api.RollbackMemory{}, vm.Memory{}, false, ""},
	}
}

// answerMemory sends a memory's record.
func (q *request) answerMemory(m vm.Memory, err error) error {
	if err != nil {
		return err
	}
	return q.ok(m)
}

func (s *server) memory(q *request) error {
	return q.answerMemory(s.Memories.Memory(q.Context(), q.call, q.ref()))
}

func (s *server) enableMemory(q *request) error {
	var in api.EnableMemory
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return q.answerMemory(s.Memories.EnableMemory(q.Context(), q.call, q.ref(), in.Repo))
}

func (s *server) disableMemory(q *request) error {
	return q.answerMemory(s.Memories.DisableMemory(q.Context(), q.call, q.ref()))
}

func (s *server) commitMemory(q *request) error {
	var in api.CommitMemory
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return q.answerMemory(s.Memories.CommitMemory(q.Context(), q.call, q.ref(), in.Message))
}

func (s *server) rollbackMemory(q *request) error {
	var in api.RollbackMemory
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return q.answerMemory(s.Memories.RollbackMemory(q.Context(), q.call, q.ref(), in.Commit))
}

func (s *server) memoryLog(q *request) error {
	limit, err := q.int("limit", 50)
	if err != nil {
		return err
	}
	list, err := s.Memories.Log(q.Context(), q.call, q.ref(), int(limit))
	if err != nil {
		return err
	}
	if list == nil {
		list = []vm.Commit{}
	}
	return q.ok(api.MemoryLog{Commits: list})
}

func (s *server) showMemory(q *request) error {
	ctx, end := s.streaming(q)
	defer end()
	w := q.later("text/plain; charset=utf-8", "")
	err := s.Memories.Show(ctx, q.call, q.ref(), q.values["commit"], q.query().Get("path"), w)
	if err == nil {
		_, err = w.Write(nil) // a file may be empty
	}
	return err
}
