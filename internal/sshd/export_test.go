// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import "github.com/warren-vm/warren/vm"

// MaxOfAccount is how many connections one account may have logged in.
const MaxOfAccount = maxOfAccount

// Begin counts a connection that has logged in.
func (s *Server) Begin(a vm.AccountID) error { return s.begin(a) }

// End takes one off the count.
func (s *Server) End(a vm.AccountID) { s.end(a) }
