// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"context"
	"net/http"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/answers"
	"github.com/warren-vm/warren/vm"
)

// Limits of background requests.
const (
	pollHeld     = 25 * time.Second // how long a poll waits for the answer; the SDK gives up after 30 s
	rememberedBy = time.Hour        // how long the door knows whose a request was, as answers are kept
	maxRemember  = 20000
)

// background is a request that is carried out without its connection, or was.
type background struct {
	began    time.Time
	over     chan struct{} // closed when its answer is stored
	identity vm.IdentityID // that made it; "" = an API key
	ref      string        // the VM that it is about
	user     string        // Linux user of its command; may be read once over is closed
}

// pending is the body of an answer that has to wait.
type pending struct {
	Request vm.RequestID `json:"requestId"`
	URL     string       `json:"resultUrl"`
	Status  string       `json:"status"`
}

func waiting(id vm.RequestID) answer {
	return answer{http.StatusAccepted, pending{id, Prefix + "/background-requests/" + string(id), "pending"}}
}

// carryOut runs a route.
func (d *Door) carryOut(c *caller, f handler) stored {
	a, err := f(c)
	if err != nil {
		return d.failed(c.Request, err, c.call.Request)
	}
	return encode(a)
}

// later sends the answer of a route if it arrives in time. Else it says under which address the
// answer will be; the work continues without the caller, and ends with the server.
func (d *Door) later(c *caller, after time.Duration, f handler) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	stop := context.AfterFunc(d.Lifetime, cancel)
	connection := c.Context()
	c.ctx = ctx
	result, detached := make(chan stored, 1), make(chan *background, 1)
	id, actor := c.call.Request, c.call.Actor
	d.work.Go(func() {
		defer cancel()
		defer stop()
		out := d.carryOut(c, f)
		result <- out
		if b, ok := <-detached; ok {
			d.keep(ctx, actor, id, out)
			b.user = c.user
			close(b.over)
		}
	})
	defer close(detached)
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case out := <-result:
		send(c.w, out)
		return
	case <-connection.Done(): // nobody waits; what was begun is completed
		return
	case <-timer.C:
	}
	rec := answers.Result{Request: id, Account: actor.Account, Created: time.Now().UTC()}
	if err := d.Answers.SaveResult(ctx, &vm.Call{Actor: actor, Request: id}, rec); err != nil {
		// Without a record nobody could fetch the answer, so the caller waits for it.
		d.Log.Warn("no record of a background request", "request", id, "err", err)
		send(c.w, <-result)
		return
	}
	b := &background{began: time.Now(), over: make(chan struct{}), identity: actor.Identity, ref: c.ref()}
	d.remember(id, b)
	detached <- b
	c.w.Header().Set(api.HeaderBackgroundID, string(id))
	send(c.w, encode(waiting(id)))
}

// keep stores an answer for later requests.
func (d *Door) keep(ctx context.Context, actor vm.Actor, id vm.RequestID, out stored) {
	ctx = context.WithoutCancel(ctx)
	call := &vm.Call{Actor: actor, Request: id}
	rec := answers.Result{Request: id, Account: actor.Account, Done: true, Status: out.status, Body: out.body}
	err := d.Answers.SaveResult(ctx, call, rec)
	if vm.KindOf(err) == vm.Limit { // the work is done: the stored answer says at least that
		e := vm.AsError(err)
		large := &vm.Error{Kind: vm.Limit, Subject: e.Subject, Msg: e.Msg, Hint: "write large output to a file, and read the file", Code: unstorable}
		short := encode(answer{shownAs(large).status, d.describe(large, id)})
		rec.Status, rec.Body = short.status, short.body
		err = d.Answers.SaveResult(ctx, call, rec)
	}
	if err != nil {
		d.Log.Error("a background answer is lost", "request", id, "err", err)
	}
}

// remember keeps whose a request is, and forgets those whose answers are no longer kept.
func (d *Door) remember(id vm.RequestID, b *background) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for old, o := range d.running {
		if time.Since(o.began) > rememberedBy || len(d.running) >= maxRemember {
			delete(d.running, old)
		}
	}
	d.running[id] = b
}

// background answers a poll. It waits a while for the answer: the SDK asks only every two seconds.
func (c *caller) background() (answer, error) {
	d, id := c.d, vm.RequestID(c.PathValue("request"))
	gone := vm.Errorf(vm.NotFound, vm.Clip(string(id), 64), "no such background request").WithHint("its answer is kept for an hour")
	d.mu.Lock()
	b := d.running[id]
	d.mu.Unlock()
	if who := c.call.Actor; who.Identity != "" {
		if b == nil || b.identity != who.Identity {
			return answer{}, gone
		}
		if _, err := d.Engine.Get(c.ctx, c.call, b.ref); err != nil {
			return answer{}, err
		}
	}
	if b != nil && !b.wait(c.ctx) {
		c.w.Header().Set(api.HeaderBackgroundID, string(id))
		return waiting(id), nil
	}
	if c.call.Actor.Identity != "" {
		if _, err := d.Access.MayEnter(c.ctx, c.call.Actor, b.ref, b.user); err != nil {
			return answer{}, err
		}
	}
	r, err := d.Answers.Result(c.ctx, c.call, id)
	if err != nil {
		return answer{}, gone
	}
	c.w.Header().Set(api.HeaderBackgroundID, string(id))
	switch {
	case r.Done:
		return answer{r.Status, raw(r.Body)}, nil
	case b == nil:
		return answer{}, &vm.Error{
			Kind: vm.Internal, Subject: string(id), Msg: "the server was started again before the request was answered",
			Hint: "look whether it was carried out before you repeat it",
		}
	}
	return waiting(id), nil
}

// wait reports whether the answer is stored, now or soon.
func (b *background) wait(ctx context.Context) bool {
	timer := time.NewTimer(pollHeld)
	defer timer.Stop()
	select {
	case <-b.over:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// raw is JSON that is sent as it is; none = no body.
func raw(data []byte) any {
	if len(data) == 0 {
		return nil
	}
	return verbatim(data)
}

type verbatim []byte

// MarshalJSON returns the bytes.
func (v verbatim) MarshalJSON() ([]byte, error) { return v, nil }
