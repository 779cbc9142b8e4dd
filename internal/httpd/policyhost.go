// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// headerAnswer says in one word how a guest's request ended.
const headerAnswer = "Warren-Answer"

// headerAsk is the id of the ask that an answer is about.
const headerAsk = "Warren-Ask"

// How a guest's request ended, where no state of an ask says it.
const (
	answerAllowed = "allowed"
	answerRefused = "refused"
	answerDone    = "done"
	answerFailed  = "failed" // neither: a bad request, a limit, a fault
)

const (
	maxGuestBody  = 16 << 10         // of a guest's request
	maxGuestText  = 1 << 10          // of one of its members or parameters
	longestWait   = 60 * time.Second // of one request for an ask
	guestPatience = 5 * time.Second  // for facts that an answer can do without
)

// guestRequest is a request of the programs inside a VM about that VM.
type guestRequest struct {
	*request
	s  *server
	vm vm.VM
	id string // the rest of the path, after the verb
	in guestInput
}

// guestInput is what a request says, in its query or in its body. All of it is hostile.
type guestInput struct {
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Proto  string `json:"proto"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Why    string `json:"why"`
	Note   string `json:"note"`
	Name   string `json:"name"`
	Count  int    `json:"count"`
}

// guestReply is an answer: body for programs, text for people.
type guestReply struct {
	answer string
	body   any
	text   string
}

// guestCall is one row of the table of what guests may ask.
type guestCall struct {
	method string
	verb   vm.GuestVerb
	handle func(*guestRequest) (guestReply, error)
}

// guestCalls are the calls by the first part of their path.
var guestCalls = map[string]guestCall{
	"":           {"GET", vm.GuestStatus, (*guestRequest).policy},
	"why":        {"GET", vm.GuestWhy, (*guestRequest).why},
	"status":     {"GET", vm.GuestStatus, (*guestRequest).status},
	"filesystem": {"GET", vm.GuestFilesystem, (*guestRequest).filesystem},
	"ask":        {"POST", vm.GuestAsk, (*guestRequest).ask},
	"ask/":       {"GET", vm.GuestAsk, (*guestRequest).asked},
	"turn":       {"POST", vm.GuestTurn, (*guestRequest).turn},
	"snapshot":   {"POST", vm.GuestSnapshot, (*guestRequest).snapshot},
	"fork":       {"POST", vm.GuestFork, (*guestRequest).fork},
}

// ServePolicy answers a request of the programs inside a VM to vm.PolicyHost, whatever the
// VM's network policy is. They act as the VM itself, and may use the verbs that its profile
// grants.
func (h Handler) ServePolicy(w http.ResponseWriter, r *http.Request, id vm.ID) {
	s := h.server
	c := &vm.Call{Actor: vm.Actor{VM: id}, Request: vm.NewRequestID()}
	q := &guestRequest{s: s, request: &request{Request: r, w: w, call: c, room: s.large, wait: s.patience}}
	defer q.letGo()
	head := w.Header()
	head.Set(api.HeaderRequest, string(c.Request))
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	reply, err := q.serve(id)
	if err != nil {
		q.refuse(err)
		return
	}
	q.reply(http.StatusOK, reply)
}

// serve finds the call and checks the caller, the rate and the input before it handles it.
func (q *guestRequest) serve(id vm.ID) (guestReply, error) {
	var known bool
	if q.vm, known = q.s.Engine.VMOf(id); !known {
		return guestReply{}, vm.Errorf(vm.NotFound, string(id), "this VM is not known")
	}
	profile, err := vm.FindProfile(q.vm.Profile)
	if err != nil {
		return guestReply{}, err
	}
	q.call.Actor.Account, q.call.Actor.Guest = q.vm.Account, profile.Name
	if err := q.s.Pace.Take(q.call.Actor); err != nil {
		return guestReply{}, err
	}
	if site := q.Header.Get("Sec-Fetch-Site"); q.Header.Get("Origin") != "" || site != "" && site != "none" {
		return guestReply{}, vm.Errorf(vm.Denied, q.URL.Path, "a web page may not ask").WithHint("run `warren-agent help` in the VM")
	}
	first, rest, below := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/")
	if below {
		first += "/"
	}
	call, known := guestCalls[first]
	if q.id = rest; !known {
		return guestReply{}, vm.Errorf(vm.NotFound, vm.Clip(q.URL.Path, 100), "there is nothing here").WithHint("GET / of http://%s says what there is", vm.PolicyHost)
	}
	if q.Method != call.method && (q.Method != http.MethodHead || call.method != http.MethodGet) {
		return guestReply{}, vm.Errorf(vm.Invalid, first, "takes %s, not %s", call.method, vm.Clip(q.Method, 20)).WithHint("curl -X %s http://%s/%s", call.method, vm.PolicyHost, first)
	}
	if !profile.Grants(call.verb) {
		return guestReply{}, vm.Errorf(vm.Denied, string(id), "its profile %s does not let its programs use %s", profile.Name, call.verb).
			WithCode("FORBIDDEN", "reason", "PROFILE", "profile", profile.Name).
			WithHint("tell the person you work for; on the host, `warren profile ls` says what each profile grants")
	}
	if err := q.read(); err != nil {
		return guestReply{}, err
	}
	if err := q.s.guests.take(id, call.verb); err != nil {
		return guestReply{}, err
	}
	return call.handle(q)
}

// read reads the input: the query, then the members of the body, if there is one.
func (q *guestRequest) read() error {
	query := q.query()
	in := guestInput{
		Host: query.Get("host"), Proto: query.Get("proto"), Method: query.Get("method"), Path: query.Get("path"),
		Why: query.Get("why"), Note: query.Get("note"), Name: query.Get("name"),
	}
	for name, to := range map[string]*int{"port": &in.Port, "count": &in.Count} {
		if text := query.Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil {
				return vm.Errorf(vm.Invalid, name, "%q is not a number", vm.Clip(text, 20))
			}
			*to = n
		}
	}
	data, err := io.ReadAll(http.MaxBytesReader(q.w, q.Body, maxGuestBody))
	if err != nil {
		return vm.Errorf(vm.Invalid, q.URL.Path, "the body is cut off, or longer than %d bytes", maxGuestBody)
	}
	if text := strings.TrimSpace(string(data)); text != "" {
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			return vm.Errorf(vm.Invalid, q.URL.Path, "the body is not the JSON that this takes: %s", jsonFault(err)).WithHint("send the members as parameters instead: ?host=HOST")
		}
	}
	for name, text := range map[string]string{"host": in.Host, "proto": in.Proto, "method": in.Method, "path": in.Path, "why": in.Why, "note": in.Note, "name": in.Name} {
		if len(text) > maxGuestText {
			return vm.Errorf(vm.Invalid, name, "is longer than %d bytes", maxGuestText)
		}
	}
	in.Host, in.Proto, in.Method = strings.ToLower(in.Host), strings.ToLower(in.Proto), strings.ToUpper(in.Method)
	q.in = in
	return nil
}

// question is what the input asks of the policy. Kind Invalid.
func (q *guestRequest) question() (vm.NetQuestion, error) {
	in := q.in
	switch {
	case in.Host == "":
		return vm.NetQuestion{}, vm.Errorf(vm.Invalid, "host", "is missing").WithHint("name a host, such as ?host=api.example.com")
	case in.Port < 0 || in.Port > 65535:
		return vm.NetQuestion{}, vm.Errorf(vm.Invalid, "port", "%d is not a port", in.Port)
	case in.Proto != "" && in.Proto != "tcp" && in.Proto != "udp":
		return vm.NetQuestion{}, vm.Errorf(vm.Invalid, "proto", "%q is neither tcp nor udp", in.Proto)
	case in.Path != "" && !strings.HasPrefix(in.Path, "/"):
		return vm.NetQuestion{}, vm.Errorf(vm.Invalid, "path", "does not begin with a slash")
	}
	return vm.NetQuestion{Host: in.Host, Port: in.Port, Proto: in.Proto, Method: in.Method, Path: in.Path}, nil
}

// wants reports whether the client wants JSON.
func (q *guestRequest) wants() bool {
	return strings.Contains(q.Header.Get("Accept"), "application/json")
}

func (q *guestRequest) reply(status int, r guestReply) {
	q.w.Header().Set(headerAnswer, r.answer)
	if q.wants() {
		if err := q.send(status, r.body); err != nil {
			q.s.Log.Error("an answer to a guest", "vm", q.vm.ID, "err", err)
		}
		return
	}
	q.header("text/plain; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = io.WriteString(q.w, r.text)
}

// refuse answers with an error.
func (q *guestRequest) refuse(err error) {
	if vm.KindOf(err) == vm.Internal {
		q.s.Log.Error("a guest's request failed", "vm", q.vm.ID, "path", vm.Clip(q.URL.Path, 200), "request", q.call.Request, "err", err)
	}
	body := q.s.errorBody(q.Context(), err, q.call, "")
	text := "warren: " + body.Message + "\n"
	if body.Hint != "" {
		text += body.Hint + "\n"
	}
	answer := answerFailed
	if body.Kind == vm.Denied {
		answer = answerRefused
	}
	q.reply(api.Status(err), guestReply{answer: answer, body: body, text: text})
}

// ref is the VM as its rooms find it.
func (q *guestRequest) ref() string { return string(q.vm.ID) }

// within is a context for facts that an answer can do without.
func (q *guestRequest) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(q.Context(), guestPatience)
}

// name is the VM's name, or its id.
func nameOf(v vm.VM) string { return cmp.Or(v.Name, string(v.ID)) }
