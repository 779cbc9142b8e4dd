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

// visitor is somebody who may enter a VM.
type visitor struct {
	actor vm.Actor
	ref   string // id or name of the VM
	name  string // Linux user; "" = root
	how   string // token, password, key or api: how they are known
}

// visitorKey is where a login leaves the visitor in its permissions.
type visitorKey struct{}

// call is a new call of the engine: two at once must not share one.
func (v *visitor) call() *vm.Call { return &vm.Call{Actor: v.actor, Request: vm.NewRequestID()} }

func (v *visitor) linuxUser() string {
	if v.name == "" {
		return "root"
	}
	return v.name
}

// userName is what the user name of a connection says:
// VM[+LINUXUSER][:TOKEN], with a comma in place of the colon for scp.
type userName struct{ ref, user, token string }

func parseUserName(s string) userName {
	var n userName
	if i := strings.IndexAny(s, ":,"); i >= 0 {
		s, n.token = s[:i], s[i+1:]
	}
	n.ref, n.user, _ = strings.Cut(s, "+")
	return n
}

// login is one connection that logs in.
type login struct {
	s     *Server
	ctx   context.Context
	raw   net.Conn
	known *visitor // who comes by the API
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
				return l.admit(l.known.actor, l.known.ref, m.User(), l.known.how)
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
	c.PublicKeyCallback = func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		// Whether the VM exists is not said before the key has signed.
		a, err := l.s.cfg.Doorman.AuthenticateKey(l.ctx, key.Marshal())
		if err != nil {
			return nil, errNobody
		}
		return &ssh.Permissions{ExtraData: map[any]any{visitorKey{}: a}}, nil
	}
	c.VerifiedPublicKeyCallback = func(m ssh.ConnMetadata, _ ssh.PublicKey, p *ssh.Permissions, _ string) (*ssh.Permissions, error) {
		a, ok := p.ExtraData[visitorKey{}].(vm.Actor)
		if !ok {
			return nil, errNobody
		}
		n := parseUserName(m.User())
		return l.admit(a, n.ref, n.user, "key")
	}
	return c
}

// version makes a word of a version: SSH allows neither spaces nor hyphens.
func version(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r < 127 && r != '-' {
			return r
		}
		return '.'
	}, s)
}

// secret admits the holder of a token or API key. A wrong one waits.
func (l *login) secret(n userName, secret, how string) (*ssh.Permissions, error) {
	a, err := l.s.cfg.Doorman.Authenticate(l.ctx, secret)
	if err != nil {
		sleep(l.ctx, l.s.guard.failed(l.raw))
		return nil, errNobody
	}
	return l.admit(a, n.ref, n.user, how)
}

// admit lets somebody in who is known. Only they are told why not.
func (l *login) admit(a vm.Actor, ref, user, how string) (*ssh.Permissions, error) {
	v := &visitor{actor: a, ref: ref, name: user, how: how}
	if user == "root" {
		v.name = ""
	}
	err := l.s.cfg.Doorman.MayEnter(l.ctx, a, ref, v.linuxUser())
	if err != nil {
		return nil, &ssh.BannerError{Err: err, Message: explain(err)}
	}
	return &ssh.Permissions{ExtraData: map[any]any{visitorKey{}: v}}, nil
}

// explain is an error for somebody's terminal. What a guest has to say in it
// cannot move the cursor.
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
