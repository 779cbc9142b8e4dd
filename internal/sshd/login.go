// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/vm"
)

// visitor is a user who may enter a VM.
type visitor struct {
	actor vm.Actor
	ref   string // id or name of the VM
	name  string // Linux user; "" = root
	how   string // token, password, key or api: how the user authenticated
	from  string // the client's address
	agent bool   // the client's SSH agent may be forwarded

	holders []vm.Actor // for a visitor of the repositories: it may act as any of them
}

// A login stores these in its permissions: the visitor, or the reason for a refusal.
type (
	visitorKey struct{}
	refusalKey struct{}
)

// call returns a new call of the engine: concurrent operations must not share one.
func (v *visitor) call() *vm.Call {
	return &vm.Call{Actor: v.actor, Request: vm.NewRequestID(), Via: vm.ActivitySSH}
}

func (v *visitor) linuxUser() string {
	if v.name == "" {
		return "root"
	}
	return v.name
}

// userName is the parsed user name of a connection: VM[+LINUXUSER][:TOKEN],
// with a comma in place of the colon for scp.
type userName struct{ ref, user, token string }

func parseUserName(s string) userName {
	var n userName
	if i := strings.IndexAny(s, ":,"); i >= 0 {
		s, n.token = s[:i], s[i+1:]
	}
	n.ref, n.user, _ = strings.Cut(s, "+")
	return n
}

// linuxUser returns the user as the engine expects it: "" = root.
func (n userName) linuxUser() string {
	if n.user == "root" {
		return ""
	}
	return n.user
}

// login is the authentication of one connection.
type login struct {
	s     *Server
	ctx   context.Context
	raw   net.Conn
	known *visitor // authenticated by the API
}

var (
	errNobody = vm.Errorf(vm.Unauthenticated, "", "wrong token or key")
	errMore   = vm.Errorf(vm.Unauthenticated, "", "a token, an API key or a registered public key is needed")
)

func (l *login) config() *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-Warren_" + version(l.s.cfg.Version),
		MaxAuthTries:  maxTries,
		NoClientAuth:  true,
		NoClientAuthCallback: func(m ssh.ConnMetadata) (*ssh.Permissions, error) {
			if l.known != nil {
				return l.admit(l.known.actor, userName{ref: l.known.ref, user: m.User()}, l.known.how)
			}
			if n := parseUserName(m.User()); n.token != "" {
				return l.secret(n, n.token, "token")
			}
			return nil, errMore
		},
	}
	c.AddHostKey(l.s.cfg.HostKey)
	if l.known != nil {
		return c
	}
	c.PasswordCallback = func(m ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		return l.secret(parseUserName(m.User()), string(password), "password")
	}
	c.KeyboardInteractiveCallback = func(m ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		answers, err := ask("", "", []string{"Token or API key: "}, []bool{false})
		if err != nil || len(answers) != 1 {
			return nil, errMore
		}
		return l.secret(parseUserName(m.User()), answers[0], "password")
	}
	c.PublicKeyCallback = func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		n := parseUserName(m.User())
		if n.hosted() && l.s.cfg.Repositories != nil {
			return l.keyHolders(ssh.FingerprintSHA256(key))
		}
		v := &visitor{ref: n.ref, name: n.linuxUser(), how: "key"}
		a, k, err := l.s.cfg.Engine.AuthenticateSSHKey(l.ctx, ssh.FingerprintSHA256(key), v.ref, v.name)
		if vm.KindOf(err) == vm.Unauthenticated {
			return nil, errNobody
		}
		v.actor, v.agent = a, k.ForwardAgent
		return &ssh.Permissions{ExtraData: map[any]any{visitorKey{}: v, refusalKey{}: err}}, nil
	}
	c.VerifiedPublicKeyCallback = func(_ ssh.ConnMetadata, _ ssh.PublicKey, p *ssh.Permissions, _ string) (*ssh.Permissions, error) {
		// Only the holder of a valid key learns what does not exist.
		if err, refused := p.ExtraData[refusalKey{}].(error); refused {
			return nil, &ssh.BannerError{Err: err, Message: explain(l.s.cfg.Engine.Conceal(err))}
		}
		if v, ok := p.ExtraData[visitorKey{}].(*visitor); ok {
			if err := l.s.room(v.actor.Account); err != nil {
				return nil, &ssh.BannerError{Err: err, Message: explain(err)}
			}
		}
		return p, nil
	}
	return c
}

// version converts a version to one word: SSH allows neither spaces nor hyphens.
func version(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 127 && r != '-' {
			return r
		}
		return '.'
	}, s)
}

// secret admits the holder of a token or API key. A wrong one is delayed.
func (l *login) secret(n userName, secret, how string) (*ssh.Permissions, error) {
	a, err := l.s.cfg.Engine.Authenticate(l.ctx, secret)
	if err != nil {
		sleep(l.ctx, l.s.guard.failed(l.raw))
		return nil, errNobody
	}
	return l.admit(a, n, how)
}

// admit admits an authenticated user; only such a user gets the reason of a refusal. An account
// may always forward its SSH agent; an identity only with a key that is registered for that.
func (l *login) admit(a vm.Actor, n userName, how string) (*ssh.Permissions, error) {
	v := &visitor{actor: a, ref: n.ref, name: n.linuxUser(), how: how, agent: a.Identity == ""}
	var err error
	if l.known == nil && n.hosted() && l.s.cfg.Repositories != nil {
		v.holders = []vm.Actor{a}
	} else {
		_, err = l.s.cfg.Engine.MayEnter(l.ctx, a, v.ref, v.name)
	}
	if err == nil {
		err = l.s.room(a.Account)
	}
	if err != nil {
		return nil, &ssh.BannerError{Err: err, Message: explain(l.s.cfg.Engine.Conceal(err))}
	}
	return &ssh.Permissions{ExtraData: map[any]any{visitorKey{}: v}}, nil
}

// keyHolders lets the holder of an SSH key reach repositories. It says nothing about which
// ones exist.
func (l *login) keyHolders(fingerprint string) (*ssh.Permissions, error) {
	holders := l.s.cfg.Engine.SSHKeyHolders(fingerprint)
	if len(holders) == 0 {
		return nil, errNobody
	}
	v := &visitor{actor: holders[0], ref: gitUser, how: "key", holders: holders}
	return &ssh.Permissions{ExtraData: map[any]any{visitorKey{}: v}}, nil
}

// explain formats an error for a terminal. Text of a guest in it cannot move the cursor.
func explain(err error) string {
	e := vm.AsError(err)
	text := "warren: " + err.Error() + "\r\n"
	if e.Hint != "" {
		text += "  " + e.Hint + "\r\n"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\r' && r != '\n' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}
