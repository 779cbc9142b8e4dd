// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package s3d is the door of object storage for S3 clients. The front of versitygw speaks
// the protocol: signatures, encodings, checksums of bodies, XML and its errors. This
// package answers it from the room objects, which decides about everything. The door keeps
// no state.
package s3d

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"syscall"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// Region is the only region of the door.
const Region = objects.Region

// Limits of a door. A request above maxRequests is answered with 503 SlowDown.
const (
	maxConnections = 4096
	maxRequests    = 1024
)

// InsideHeader names the VM from which a request comes. It counts only on the unix socket,
// to which only this server's own proxy connects.
const InsideHeader = "Warren-Inside-VM"

// Server is the door.
type Server struct {
	api   *s3api.S3ApiServer
	store *store
	end   context.CancelFunc
	// inside is the secret access key of requests from VMs, whose access key id is the VM's
	// id. Nobody but this process has it.
	inside string

	listening chan struct{}
	ended     chan error
	once      sync.Once
}

// New returns a door for a room that is open. It serves until Close, whatever becomes of ctx.
func New(ctx context.Context, room *objects.Objects, log *slog.Logger) (*Server, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{store: &store{room: room, log: log, life: life}, end: end, inside: vm.NewSecret(), listening: make(chan struct{}), ended: make(chan error, 1)}
	api, err := s3api.New(s.store, middlewares.RootUserConfig{}, Region, users{room, log, life, s.inside}, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithSocketPerm(0o600), s3api.WithKeepAlive(), s3api.WithConcurrencyLimiter(maxConnections, maxRequests),
		s3api.WithMpMaxParts(objects.MaxParts), s3api.WithDisableACL(), s3api.WithMiddleware("/", note),
		s3api.WithOnListen(func() { close(s.listening) }))
	if err != nil {
		end()
		return nil, vm.Errorf(vm.Internal, "s3", "%w", err)
	}
	if err := harden(api); err != nil {
		end()
		return nil, err
	}
	s.api = api
	return s, nil
}

// Listen begins to serve on addresses: host:port, or the path of a unix socket. It returns
// when the door accepts connections, or with the error: kind Busy when something else
// listens there. Call it once, and Close once.
func (s *Server) Listen(addresses ...string) error {
	go func() { s.ended <- s.api.ServeMultiPort(addresses) }() // ends with Close
	select {
	case <-s.listening:
		return nil
	case err := <-s.ended:
		s.ended <- nil
		if errors.Is(err, syscall.EADDRINUSE) {
			return vm.Errorf(vm.Busy, addresses[0], "something else listens there").WithHint("stop it, or choose another address with --s3, or `--s3 off`")
		}
		return vm.Errorf(vm.Invalid, addresses[0], "cannot listen there: %w", err).WithHint("choose another address with --s3")
	}
}

// Failed receives the error of a door that has ended by itself.
func (s *Server) Failed() <-chan error { return s.ended }

// Close ends the door: it lets requests finish for ten seconds.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		select {
		case <-s.listening:
			err = s.api.ShutDown()
		default:
		}
		s.end()
	})
	return err
}

// The names under which note keeps what the front does not hand on.
const (
	keepBypass = "warren-bypass"
	keepInside = "warren-inside"
	keepSHA256 = "warren-sha256"
)

// note keeps what a backend of the front is not told: that a caller wants to override a
// governance retention, and the VM from which the request comes. It refuses bodies that are
// too large.
func note(ctx fiber.Ctx) error {
	if refused, err := bound(ctx); refused {
		return err
	}
	if ctx.Get("X-Amz-Bypass-Governance-Retention") == "true" {
		ctx.Locals(keepBypass, true)
	}
	if sum := ctx.Get("X-Amz-Content-Sha256"); len(sum) == 64 && ctx.Method() == fiber.MethodPut && ctx.Get("Authorization") != "" && !utils.IsPresignedURLAuth(ctx) {
		ctx.Locals(keepSHA256, strings.Clone(sum)) // the front compares it with the body
	}
	if ctx.RequestCtx().LocalAddr().Network() == "unix" {
		ctx.Locals(keepInside, ctx.Get(InsideHeader))
	}
	err := ctx.Next()
	disarm(ctx)
	return err
}

// users finds the secrets of access keys. Every caller has the role of an admin for the
// front, which then leaves every decision to the room.
type users struct {
	room *objects.Objects
	log  *slog.Logger
	life context.Context

	inside string
}

func (u users) GetUserAccount(access string) (auth.Account, error) {
	if vm.IsID(access) {
		return auth.Account{Access: access, Secret: u.inside, Role: auth.RoleAdmin}, nil
	}
	secret, _, err := u.room.Secret(u.life, access)
	switch {
	case vm.KindOf(err) == vm.Unauthenticated:
		return auth.Account{}, auth.ErrNoSuchUser
	case err != nil:
		u.log.Warn("the secret of an access key could not be read", "key", access, "err", err)
		return auth.Account{}, s3err.GetAPIError(s3err.ErrInternalError)
	}
	return auth.Account{Access: access, Secret: secret, Role: auth.RoleAdmin}, nil
}

var errNoAdmin = s3err.GetAPIError(s3err.ErrAdminMethodNotSupported)

func (users) CreateAccount(auth.Account) error                        { return errNoAdmin }
func (users) UpdateUserAccount(string, auth.MutableProps) error       { return errNoAdmin }
func (users) DeleteUserAccount(string) error                          { return errNoAdmin }
func (users) ListUserAccounts() ([]auth.Account, error)               { return nil, errNoAdmin }
func (users) ResolveAccounts(accessKeyIDs []string) ([]string, error) { return accessKeyIDs, nil }
func (users) Shutdown() error                                         { return nil }
