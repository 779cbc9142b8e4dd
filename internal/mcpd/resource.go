// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// Resources are what a client may attach to a conversation:
//
//	warren://machines                            the machines
//	warren://machines/NAME                       one machine
//	warren://machines/NAME/files/PATH            a file
//	warren://machines/NAME/console               what its kernel and services print
//	warren://machines/NAME/processes/ID/output   the output of a command in the background
//	warren://machines/NAME/terminals/ID          the screen of a terminal
//	warren://machines/NAME/screen                a picture of its desktop
const scheme = "warren://machines"

// resourceMost bounds the bytes of one resource. Of a log it is the end.
const resourceMost = 1 << 20

func (s *Server) addResources() {
	s.mcp.AddResource(&mcp.Resource{
		URI: scheme, Name: "machines", Title: "Machines", MIMEType: "application/json", Description: "The machines that you may use.",
	}, s.read)
	for _, t := range []mcp.ResourceTemplate{
		{URITemplate: scheme + "/{machine}", Name: "machine", Title: "A machine", MIMEType: "application/json", Description: "One machine, by name or id."},
		{URITemplate: scheme + "/{machine}/files/{+path}", Name: "file", Title: "A file of a machine", Description: "A file, by its absolute path without the first slash, at most 1 MiB."},
		{URITemplate: scheme + "/{machine}/console", Name: "console", Title: "The console of a machine", MIMEType: "text/plain", Description: "What the kernel and the services print: the newest MiB."},
		{URITemplate: scheme + "/{machine}/processes/{id}/output", Name: "output", Title: "The output of a command", MIMEType: "text/plain", Description: "The output of a command in the background: the newest MiB."},
		{URITemplate: scheme + "/{machine}/terminals/{id}", Name: "terminal", Title: "The screen of a terminal", MIMEType: "text/plain", Description: "The screen of a terminal, as text."},
		{URITemplate: scheme + "/{machine}/screen", Name: "screen", Title: "The desktop of a machine", MIMEType: "image/png", Description: "A picture of the desktop of a machine that has one."},
	} {
		s.mcp.AddResourceTemplate(&t, s.read)
	}
}

// read answers a resource. Its failures are errors of the protocol: resources have no others.
func (s *Server) read(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	ctx, leave, k := s.enter(ctx, req.Session, req.Extra, nil)
	defer leave()
	content, err := resource(ctx, k.c, req.Params.URI)
	switch {
	case errors.Is(err, vm.NotFound):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: tell(err).Error()}
	case err != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: tell(err).Error()}
	}
	content.URI = req.Params.URI
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

// resource finds what a URI names.
func resource(ctx context.Context, c *client.Client, uri string) (*mcp.ResourceContents, error) {
	if uri == scheme {
		l, err := c.List(ctx, false)
		if err != nil {
			return nil, err
		}
		out := []machine{}
		for _, v := range l.VMs[max(0, len(l.VMs)-listMost):] {
			out = append(out, machineOf(v))
		}
		return asJSON(out)
	}
	var part []string
	for _, p := range strings.Split(strings.TrimPrefix(uri, scheme+"/"), "/") {
		u, err := url.PathUnescape(p)
		if err != nil {
			return nil, vm.Errorf(vm.NotFound, uri, "is not an address of Warren")
		}
		part = append(part, u)
	}
	name, what := part[0], part[1:]
	switch {
	case len(what) == 0:
		v, err := c.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		return asJSON(machineOf(v))
	case what[0] == "files" && len(what) > 1:
		return fileResource(ctx, c, name, "/"+strings.Join(what[1:], "/"))
	case len(what) == 1 && what[0] == "console":
		return logResource(c.ConsoleLog(ctx, name, 0, false))
	case len(what) == 3 && what[0] == "processes" && what[2] == "output":
		return logResource(c.ProcessLog(ctx, name, what[1], 0, false))
	case len(what) == 2 && what[0] == "terminals":
		o, err := c.TerminalScreen(ctx, name, "", what[1])
		return &mcp.ResourceContents{MIMEType: "text/plain", Text: o.Text}, err
	case len(what) == 1 && what[0] == "screen":
		png, err := c.ShotScreen(ctx, name)
		return &mcp.ResourceContents{MIMEType: "image/png", Blob: png}, err
	}
	return nil, vm.Errorf(vm.NotFound, uri, "is not an address of Warren").WithHint("resources/templates/list has the forms")
}

func asJSON(v any) (*mcp.ResourceContents, error) {
	data, err := json.Marshal(v)
	return &mcp.ResourceContents{MIMEType: "application/json", Text: string(data)}, err
}

func fileResource(ctx context.Context, c *client.Client, name, path string) (*mcp.ResourceContents, error) {
	_, r, err := c.GetRaw(ctx, name, "", path, resourceMost)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		return &mcp.ResourceContents{MIMEType: "text/plain", Text: string(data)}, nil
	}
	return &mcp.ResourceContents{MIMEType: "application/octet-stream", Blob: data}, nil
}

// logResource reads a log and keeps its end.
func logResource(r io.ReadCloser, _ int64, err error) (*mcp.ResourceContents, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close()
	end := &clip{most: 2 * resourceMost}
	if _, err := io.Copy(end, r); err != nil {
		return nil, err
	}
	return &mcp.ResourceContents{MIMEType: "text/plain", Text: end.last(resourceMost)}, nil
}
