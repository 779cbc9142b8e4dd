// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"io"
	"net"

	"github.com/warren-vm/warren/vm"
)

var errPending = &vm.Error{Kind: vm.Unsupported, Msg: "not ready"}

func (e *Engine) Create(ctx context.Context, c *vm.Call, r CreateRequest) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) Start(ctx context.Context, c *vm.Call, ref string, r StartRequest) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) Stop(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) Kill(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) Delete(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) Await(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) Get(ctx context.Context, c *vm.Call, ref string) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) List(ctx context.Context, c *vm.Call, f Filter) (vms []vm.VM, total int, counts map[vm.State]int, err error) {
	err = errPending
	return
}

func (e *Engine) Inspect(ctx context.Context, c *vm.Call, ref string) (i Inspection, err error) {
	err = errPending
	return
}

func (e *Engine) SetNetwork(ctx context.Context, c *vm.Call, ref, mode string) (v vm.VM, err error) {
	err = errPending
	return
}

func (e *Engine) Connections(ctx context.Context, c *vm.Call, ref string) (l []vm.Connection, err error) {
	err = errPending
	return
}

func (e *Engine) DialPort(ctx context.Context, c *vm.Call, ref string, port uint16) (n net.Conn, err error) {
	err = errPending
	return
}

func (e *Engine) Exec(ctx context.Context, c *vm.Call, ref string, spec vm.ExecSpec) (x Exec, err error) {
	err = errPending
	return
}

func (e *Engine) StartProcess(ctx context.Context, c *vm.Call, ref string, spec vm.ExecSpec) (p vm.Process, err error) {
	err = errPending
	return
}

func (e *Engine) Processes(ctx context.Context, c *vm.Call, ref string) (l []vm.Process, err error) {
	err = errPending
	return
}

func (e *Engine) Process(ctx context.Context, c *vm.Call, ref, id string) (p vm.Process, err error) {
	err = errPending
	return
}

func (e *Engine) WaitProcess(ctx context.Context, c *vm.Call, ref, id string) (p vm.Process, err error) {
	err = errPending
	return
}

func (e *Engine) SignalProcess(ctx context.Context, c *vm.Call, ref, id, name string) (err error) {
	err = errPending
	return
}

func (e *Engine) ForgetProcess(ctx context.Context, c *vm.Call, ref, id string) (err error) {
	err = errPending
	return
}

func (e *Engine) ProcessLog(ctx context.Context, c *vm.Call, ref, id string, from int64, follow bool) (r io.ReadCloser, offset int64, err error) {
	err = errPending
	return
}

func (e *Engine) Stat(ctx context.Context, c *vm.Call, ref, user, path string) (f vm.FileInfo, err error) {
	err = errPending
	return
}

func (e *Engine) ReadDir(ctx context.Context, c *vm.Call, ref, user, path string) (l []vm.FileInfo, err error) {
	err = errPending
	return
}

func (e *Engine) OpenFile(ctx context.Context, c *vm.Call, ref, user, path string) (f vm.FileInfo, r io.ReadCloser, err error) {
	err = errPending
	return
}

func (e *Engine) WriteFile(ctx context.Context, c *vm.Call, ref, user, path string, o vm.WriteOptions, r io.Reader) (f vm.FileInfo, err error) {
	err = errPending
	return
}

func (e *Engine) Mkdir(ctx context.Context, c *vm.Call, ref, user, path string, mode uint32, parents bool) (err error) {
	err = errPending
	return
}

func (e *Engine) Rename(ctx context.Context, c *vm.Call, ref, user, from, to string) (err error) {
	err = errPending
	return
}

func (e *Engine) Remove(ctx context.Context, c *vm.Call, ref, user, path string, recursive bool) (err error) {
	err = errPending
	return
}

func (e *Engine) Chmod(ctx context.Context, c *vm.Call, ref, user, path string, mode uint32) (err error) {
	err = errPending
	return
}

func (e *Engine) Symlink(ctx context.Context, c *vm.Call, ref, user, target, path string) (err error) {
	err = errPending
	return
}

func (e *Engine) TarDown(ctx context.Context, c *vm.Call, ref, user, path string) (r io.ReadCloser, err error) {
	err = errPending
	return
}

func (e *Engine) TarUp(ctx context.Context, c *vm.Call, ref, user, path string, r io.Reader) (err error) {
	err = errPending
	return
}

func (e *Engine) Watch(ctx context.Context, c *vm.Call, ref, user, path string, recursive bool) (w Watch, err error) {
	err = errPending
	return
}

func (e *Engine) Stats(ctx context.Context, c *vm.Call, ref string) (s vm.Stats, err error) {
	err = errPending
	return
}

func (e *Engine) ConsoleLog(ctx context.Context, c *vm.Call, ref string, from int64, follow bool) (r io.ReadCloser, offset int64, err error) {
	err = errPending
	return
}

func (e *Engine) CreateAccount(ctx context.Context, c *vm.Call, name string) (a vm.Account, k vm.APIKey, secret string, err error) {
	err = errPending
	return
}

func (e *Engine) Accounts(ctx context.Context, c *vm.Call) (l []vm.Account, err error) {
	err = errPending
	return
}

func (e *Engine) RemoveAccount(ctx context.Context, c *vm.Call, id vm.AccountID, force bool) (err error) {
	err = errPending
	return
}

func (e *Engine) CreateKey(ctx context.Context, c *vm.Call, account vm.AccountID, name string) (k vm.APIKey, secret string, err error) {
	err = errPending
	return
}

func (e *Engine) Keys(ctx context.Context, c *vm.Call, account vm.AccountID) (l []vm.APIKey, err error) {
	err = errPending
	return
}

func (e *Engine) RotateKey(ctx context.Context, c *vm.Call, id vm.KeyID) (k vm.APIKey, secret string, err error) {
	err = errPending
	return
}

func (e *Engine) RevokeKey(ctx context.Context, c *vm.Call, id vm.KeyID) (err error) {
	err = errPending
	return
}

func (e *Engine) Authenticate(ctx context.Context, secret string) (a vm.Actor, err error) {
	err = errPending
	return
}

func (e *Engine) Account(ctx context.Context, c *vm.Call) (a vm.Account, err error) {
	err = errPending
	return
}

func (e *Engine) EnsureAdmin(ctx context.Context) (secret string, created bool, err error) {
	err = errPending
	return
}

func (e *Engine) AuditList(ctx context.Context, c *vm.Call, f AuditFilter) (l []AuditRecord, err error) {
	err = errPending
	return
}

func (e *Engine) AuditVerify(ctx context.Context, c *vm.Call) (r AuditReport, err error) {
	err = errPending
	return
}

func (e *Engine) Events(ctx context.Context, c *vm.Call, after int64) (s EventStream, err error) {
	err = errPending
	return
}

func (e *Engine) Images(ctx context.Context, c *vm.Call) (l []vm.Image, err error) {
	err = errPending
	return
}

func (e *Engine) FindImage(ctx context.Context, c *vm.Call, ref string) (i vm.Image, err error) {
	err = errPending
	return
}

func (e *Engine) Host(ctx context.Context, c *vm.Call) (h HostInfo, err error) {
	err = errPending
	return
}

func (e *Engine) SaveResult(ctx context.Context, c *vm.Call, r Result) (err error) {
	err = errPending
	return
}

func (e *Engine) Result(ctx context.Context, c *vm.Call, id vm.RequestID) (r Result, err error) {
	err = errPending
	return
}

func (e *Engine) Close(ctx context.Context) (err error) { err = errPending; return }
