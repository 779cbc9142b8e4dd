// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/warren-vm/warren/vm"
)

// registry is a repository of a registry.
type registry struct {
	repo    name.Repository
	subject string
	options []remote.Option
	top     v1.Descriptor
	raw     []byte // of top
}

// login is the login of one registry.
type login struct {
	registry string
	auth     authn.Authenticator
}

// Login returns a keychain with the login of the registry that s names. Other registries get no login.
func Login(s Source, user, password string) authn.Keychain {
	host := ""
	if ref, err := name.ParseReference(s.Place); err == nil {
		host = ref.Context().RegistryStr()
	}
	return login{host, &authn.Basic{Username: user, Password: password}}
}

// Resolve implements authn.Keychain.
func (l login) Resolve(r authn.Resource) (authn.Authenticator, error) {
	if r.RegistryStr() == l.registry {
		return l.auth, nil
	}
	return authn.Anonymous, nil
}

// openRegistry asks a registry what a reference stands for now.
func openRegistry(ctx context.Context, s Source, o Options) (parts, v1.Descriptor, error) {
	ref, err := name.ParseReference(s.Place)
	if err != nil {
		return nil, v1.Descriptor{}, badReference(s.String(), "is no name of a container image")
	}
	keys := o.Keychain
	if keys == nil {
		keys = authn.DefaultKeychain
	}
	r := &registry{repo: ref.Context(), subject: s.String(), options: []remote.Option{remote.WithAuthFromKeychain(keys), remote.WithUserAgent("warren")}}
	if o.Transport != nil {
		r.options = append(r.options, remote.WithTransport(o.Transport))
	}
	got, err := remote.Get(ref, append(r.options, remote.WithContext(ctx))...)
	if err != nil {
		return nil, v1.Descriptor{}, r.explain(ctx, err)
	}
	r.top, r.raw = got.Descriptor, got.Manifest
	return r, r.top, nil
}

// get downloads a part: a manifest by its own route, all else as a blob.
func (r *registry) get(ctx context.Context, st store, d v1.Descriptor, moved func(int64)) error {
	options := append(r.options[:len(r.options):len(r.options)], remote.WithContext(ctx))
	at := r.repo.Digest(d.Digest.String())
	if d.MediaType.IsIndex() || d.MediaType.IsImage() || d.MediaType.IsSchema1() {
		raw := r.raw
		if d.Digest != r.top.Digest {
			got, err := remote.Get(at, options...)
			if err != nil {
				return r.explain(ctx, err)
			}
			raw = got.Manifest
		}
		return st.put(ctx, d.Digest, int64(len(raw)), bytesReader(raw), moved)
	}
	l, err := remote.Layer(at, options...)
	if err != nil {
		return r.explain(ctx, err)
	}
	body, err := l.Compressed()
	if err != nil {
		return r.explain(ctx, err)
	}
	err = st.put(ctx, d.Digest, d.Size, body, moved)
	_ = body.Close() // it was only read
	var known *vm.Error
	if err == nil || errors.As(err, &known) && known.Kind != vm.Internal {
		return err
	}
	return r.explain(ctx, err)
}

// explain turns an answer of the registry into an error for people.
func (r *registry) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	host := r.repo.RegistryStr()
	var t *transport.Error
	if errors.As(err, &t) {
		switch t.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return vm.Errorf(vm.Denied, r.subject, "the registry %s wants other credentials, or has no such image", host).WithCode("OCI_UNAUTHORIZED").
				WithHint("give --user and --password-file to `warren image import`, or log in with `docker login %s`", host)
		case http.StatusNotFound:
			return vm.Errorf(vm.NotFound, r.subject, "the registry %s has no such image", host).WithCode("OCI_NOT_FOUND").
				WithHint("check the name and the tag; a private image of Docker Hub looks the same until you log in")
		}
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the URL error repeats the address
	}
	if text := err.Error(); containsAny(text, "does not match digest", "manifest digest", "error verifying") {
		return damaged(r.subject, "what the registry sent does not match its digest")
	} else {
		return vm.Errorf(vm.Unavailable, r.subject, "the registry %s gave no image: %s", host, vm.Clip(text, 300)).WithCode("OCI_UNREACHABLE").
			WithHint("check that this host reaches %s; parts that have come stay in the cache", host)
	}
}
