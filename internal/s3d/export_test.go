// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"io"
	"net"
	"time"
)

// InsideSecret is the secret access key of requests from VMs.
func (s *Server) InsideSecret() string { return s.inside }

// Paced is the body of an upload that began at a time.
func Paced(conn net.Conn, began time.Time) io.Reader {
	return &paced{from: conn, conn: conn, began: began}
}

// Deadlines are how long a door waits for a request, and between two.
func Deadlines(s *Server) (header, idle time.Duration, err error) {
	app, err := appOf(s.api)
	if err != nil {
		return 0, 0, err
	}
	return app.Server().ReadTimeout, app.Server().IdleTimeout, nil
}
