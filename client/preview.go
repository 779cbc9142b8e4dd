// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func previewPath(ref string, port uint16, rest ...string) string {
	return vmPath(ref, append([]string{"previews", strconv.Itoa(int(port))}, rest...)...)
}

// Previews returns the ports of a VM whose access was set.
func (c *Client) Previews(ctx context.Context, ref string) ([]api.Preview, error) {
	l, err := do[api.PreviewList](ctx, c, call{method: "GET", path: vmPath(ref, "previews")}, nil)
	return l.Previews, err
}

// Preview returns one port of a VM at the preview gateway.
func (c *Client) Preview(ctx context.Context, ref string, port uint16) (api.Preview, error) {
	return do[api.Preview](ctx, c, call{method: "GET", path: previewPath(ref, port)}, nil)
}

// SetPreview opens a port to everybody, or makes it private again.
func (c *Client) SetPreview(ctx context.Context, ref string, port uint16, public bool) (api.Preview, error) {
	return do[api.Preview](ctx, c, call{method: "PUT", path: previewPath(ref, port)}, api.SetPreview{Public: public})
}

// ClosePreview makes a port private and revokes every link to it.
func (c *Client) ClosePreview(ctx context.Context, ref string, port uint16) (api.Preview, error) {
	return do[api.Preview](ctx, c, call{method: "DELETE", path: previewPath(ref, port)}, nil)
}

// LinkPreview signs a link that opens a private port for this time; 0 = an hour.
func (c *Client) LinkPreview(ctx context.Context, ref string, port uint16, lasts time.Duration) (api.PreviewLink, error) {
	return do[api.PreviewLink](ctx, c, call{method: "POST", path: previewPath(ref, port, "links")}, api.NewLink{For: vm.Seconds(lasts)})
}

// TicketPreview returns an address that opens a port in a browser as the caller,
// once and within 30 seconds.
func (c *Client) TicketPreview(ctx context.Context, ref string, port uint16) (api.PreviewLink, error) {
	return do[api.PreviewLink](ctx, c, call{method: "POST", path: previewPath(ref, port, "tickets")}, nil)
}

// CA returns the certificate of the CA that signs the previews' certificates, as PEM.
func (c *Client) CA(ctx context.Context) ([]byte, error) {
	resp, err := c.send(ctx, call{method: "GET", path: pathOf("v1", "ca")})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	return data, nil
}

// DialPort connects to a TCP port of the guest and wakes the VM. The connection ends with ctx.
func (c *Client) DialPort(ctx context.Context, ref string, port uint16) (net.Conn, error) {
	ws, err := c.socket(ctx, vmPath(ref, "dial", strconv.Itoa(int(port))), nil, http.Header{})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1) // it is a stream: message boundaries have no meaning
	return websocket.NetConn(ctx, ws, websocket.MessageBinary), nil
}

// VerifyDomain starts the verification of a domain.
func (c *Client) VerifyDomain(ctx context.Context, domain string) (api.Verification, error) {
	return do[api.Verification](ctx, c, call{method: "POST", path: pathOf("domains", "v1", "verifications")}, api.Domain{Domain: domain})
}

// CheckDomain looks for the TXT record of a verification.
func (c *Client) CheckDomain(ctx context.Context, domain string) error {
	_, err := do[none](ctx, c, call{method: "PUT", path: pathOf("domains", "v1", "verifications")}, api.Domain{Domain: domain})
	return err
}

// Domains lists verified domains, and names claimed below the preview domain.
func (c *Client) Domains(ctx context.Context) ([]api.OwnedDomain, error) {
	return do[[]api.OwnedDomain](ctx, c, call{method: "GET", path: pathOf("domains", "v1", "domains")}, nil)
}

// Mappings lists the domains that are mapped to VMs.
func (c *Client) Mappings(ctx context.Context) ([]api.Mapping, error) {
	q := map[string][]string{"limit": {"10000"}}
	return do[[]api.Mapping](ctx, c, call{method: "GET", path: pathOf("domains", "v1", "mappings"), query: q}, nil)
}

// MapDomain opens a port of a VM to everybody at a domain.
func (c *Client) MapDomain(ctx context.Context, domain string, id vm.ID, port uint16) (api.Mapping, error) {
	in := api.NewMapping{Domain: domain, VM: string(id), Port: int(port)}
	return do[api.Mapping](ctx, c, call{method: "POST", path: pathOf("domains", "v1", "mappings", domain)}, in)
}

// UnmapDomain removes a mapping.
func (c *Client) UnmapDomain(ctx context.Context, domain string) error {
	_, err := do[none](ctx, c, call{method: "DELETE", path: pathOf("domains", "v1", "mappings", domain)}, nil)
	return err
}
