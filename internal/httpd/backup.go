// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"github.com/warren-vm/warren/api"
)

func (s *server) backupRoutes() []route {
	return []route{
		{"POST", "/v1/backups", admin, s.backup, "Copy the server's state as an archive, with an end mark. Until it was verified it is no backup.", nil, nil, true, ""},
	}
}

// backup streams a copy of the server's state. The status is sent when the captures are
// done, so that their failure is an answer.
func (s *server) backup(q *request) error {
	ctx, cancel := s.connected(q)
	defer cancel()
	if _, err := s.Backup.Create(ctx, q.call, onlyWriter{q.w}, q.beginArchive); err != nil {
		return err
	}
	q.w.Header().Set(api.HeaderEnd, "ok")
	return nil
}
