// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// Commit commits a directory of a VM to a repository of the server; with DryRun it only
// says what would be committed.
func (c *Client) Commit(ctx context.Context, ref string, in vm.CommitRequest) (vm.CommitPlan, error) {
	return do[vm.CommitPlan](ctx, c, call{method: "POST", path: vmPath(ref, "commit")}, in)
}

// Content reads paths of a state of a VM's disk as a tar stream. The reader fails at its
// end if the stream is incomplete, so read it to io.EOF. The guest wrote the data: do not
// trust it.
func (c *Client) Content(ctx context.Context, ref string, in api.ContentOf) (io.ReadCloser, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, ref, "the request cannot be sent: %w", err)
	}
	q := call{method: "POST", path: vmPath(ref, "content"), header: http.Header{"Content-Type": {"application/json"}}, body: bytes.NewReader(data), size: int64(len(data))}
	resp, err := c.send(ctx, q) //nolint:bodyclose // the returned reader closes it
	if err != nil {
		return nil, err
	}
	return &tarReader{stream: stream{c: c, ctx: ctx, body: resp.Body}, path: ref, resp: resp}, nil
}

// GitAddress returns the address of a repository for git, and the HTTP header with which
// git authenticates there. The header is a secret: pass it by the environment.
func (c *Client) GitAddress(repo string) (address, header string, err error) {
	if c.baseErr != nil {
		return "", "", c.baseErr
	}
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + c.key))
	return c.address("/"+url.PathEscape(repo), nil), "Authorization: Basic " + basic, nil
}
