// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestPreviewSession: a caller with a token sees a port while the token and the
// permission exist. A visitor of a public port, or with a link, sees it until it is
// closed.
func TestPreviewSession(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	i, token, own := identity(t, e, c, access.TokenRequest{})
	at := func() vm.Site {
		s, ok := e.PreviewSite("box", 3000)
		if !ok {
			t.Fatal("no site")
		}
		return s
	}
	ended := func(what string, held context.Context, kind vm.Kind) {
		t.Helper()
		select {
		case <-held.Done():
			if k := vm.KindOf(context.Cause(held)); k != kind {
				t.Errorf("%s: the connection ended with %v, want kind %s", what, context.Cause(held), kind)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: it goes on", what)
		}
	}
	if e.MayPreview(own.Actor, at()) {
		t.Error("without a permission")
	}
	now, stop := e.PreviewSession(ctx, own.Actor, at())
	defer stop()
	ended("without a permission", now, vm.Denied)
	grantVM(t, e, c, i, v)
	if !e.MayPreview(own.Actor, at()) || !e.MayPreview(c.Actor, at()) {
		t.Error("with a permission, or as the owner")
	}
	_, _, secret, err := e.CreateAccount(ctx, c, "other")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := e.Authenticate(ctx, secret); err != nil || e.MayPreview(other, at()) {
		t.Errorf("another account: %v", err)
	}
	held, stop := e.PreviewSession(ctx, own.Actor, at())
	defer stop()
	if err := e.RevokeVM(ctx, c, string(i.ID), string(v.ID)); err != nil {
		t.Fatal(err)
	}
	ended("its permission was revoked", held, vm.Denied)
	grantVM(t, e, c, i, v)
	held, stop = e.PreviewSession(ctx, own.Actor, at())
	defer stop()
	if err := e.RevokeToken(ctx, c, string(i.ID), token.ID); err != nil {
		t.Fatal(err)
	}
	ended("its token was revoked", held, vm.Unauthenticated)

	link, stop := e.PreviewSession(ctx, vm.Actor{}, at())
	defer stop()
	if _, err := e.SetPreview(ctx, c, "box", 3000, true); err != nil {
		t.Fatal(err)
	}
	public, stop := e.PreviewSession(ctx, vm.Actor{}, at())
	defer stop()
	if link.Err() != nil {
		t.Error("a link ended because the port was opened")
	}
	if _, err := e.SetPreview(ctx, c, "box", 3000, false); err != nil {
		t.Fatal(err)
	}
	ended("no longer public", public, vm.Denied)
	if link.Err() != nil {
		t.Error("a link ended with the public")
	}
	if _, err := e.ClosePreview(ctx, c, "box", 3000); err != nil {
		t.Fatal(err)
	}
	ended("the port was closed", link, vm.Denied)

	if _, err := e.MapDomain(ctx, c, "app.warren.localhost", "box", 3000); err != nil {
		t.Fatal(err)
	}
	mapped, ok := e.DomainSite("app.warren.localhost")
	if !ok || mapped.Domain != "app.warren.localhost" {
		t.Fatalf("the mapped domain leads to %+v (found %v)", mapped, ok)
	}
	domain, stop := e.PreviewSession(ctx, vm.Actor{}, mapped)
	defer stop()
	if _, err := e.Unmap(ctx, c, "app.warren.localhost"); err != nil {
		t.Fatal(err)
	}
	ended("the domain was unmapped", domain, vm.Denied)
}
