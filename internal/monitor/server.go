// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// server is the monitor's socket. Only the user that runs Warren can open it
// (mode 0600, in a 0700 directory).
type server struct {
	m       *machine
	http    *http.Server
	l       *net.UnixListener // the current one; only stayPresent replaces it
	streams streams
	serving sync.WaitGroup
	self    identity // set once the machine is ready
}

// listen creates the socket and answers on it until close.
func listen(m *machine) (*server, error) {
	s := &server{m: m}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", s.status)
	mux.HandleFunc("GET /wait", s.wait)
	mux.HandleFunc("POST /stop", s.stop)
	mux.HandleFunc("POST /kill", s.kill)
	mux.HandleFunc("PUT /network", s.network)
	mux.HandleFunc("PUT /paths", s.setPaths)
	mux.HandleFunc("GET /connections", s.connections)
	mux.HandleFunc("POST /network/cuts", s.cuts)
	mux.HandleFunc("POST /capture", s.capture)
	mux.HandleFunc("POST /resize", s.resize)
	mux.HandleFunc("POST /volume", s.plugVolume)
	mux.HandleFunc("DELETE /volume/{id}", s.unplugVolume)
	mux.HandleFunc("POST /volume/{id}/snapshots/{snapshot}", s.snapshotVolume)
	mux.HandleFunc("DELETE /volume/{id}/snapshots/{snapshot}", s.snapshotVolume)
	mux.HandleFunc("POST /folder", s.addFolder)
	mux.HandleFunc("DELETE /folder", s.dropFolder)
	mux.HandleFunc("POST /resume", s.resume)
	mux.HandleFunc("POST /reseat", s.reseat)
	mux.HandleFunc("GET /disk", s.disk)
	mux.HandleFunc("POST /flatten", s.flatten)
	mux.HandleFunc("POST /pause", s.pause)
	mux.HandleFunc("POST /adopt", s.adopt)
	mux.HandleFunc("GET /agent", func(w http.ResponseWriter, r *http.Request) { s.serveStream(w, r, m.link.open) })
	mux.HandleFunc("GET /port/{port}", s.port)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: callDeadline, ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelWarn)}
	return s, s.bind()
}

// bind creates the socket and serves it, in place of the previous one, whose name
// is gone.
func (s *server) bind() error {
	path := layout.RunVM(s.m.spec.RunDir).Monitor()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pathError(path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return pathError(path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(pathError(path, err), l.Close())
	}
	if s.l != nil {
		s.l.SetUnlinkOnClose(false) // the name belongs to the new one
		_ = s.l.Close()             // no client can find it any more
	}
	s.l = l
	s.serving.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.m.log.Error("monitor socket", "err", err)
		}
	})
	return nil
}

// close waits for requests in progress and ends the server.
func (s *server) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s.streams.closeAll()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close() // requests that are left have waited too long
	}
	s.serving.Wait()
}

func writeJSONBody(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}

func writeError(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError) // the kind is more exact
	_ = json.NewEncoder(w).Encode(vm.ToWire(err))
}

func readJSONBody(r *http.Request, v any) error {
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 4<<20)).Decode(v); err != nil {
		return vm.Errorf(vm.Invalid, "", "malformed request: %w", err)
	}
	return nil
}

// status answers at once, or with ?ready=1 when the start has ended.
func (s *server) status(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("ready") != "" {
		select {
		case <-s.m.started:
		case <-s.m.gone:
		case <-r.Context().Done():
			return
		}
	}
	writeJSONBody(w, s.m.status(r.Context()))
}

func (s *server) wait(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.m.gone:
		writeJSONBody(w, s.m.exit)
	case <-r.Context().Done():
	}
}

func (s *server) stop(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Grace time.Duration `json:"grace"`
	}
	if err := readJSONBody(r, &body); err != nil {
		writeError(w, err)
		return
	}
	// The stop continues if its caller disconnects, so that it is not left half
	// done.
	s.end(w, s.m.stop(context.WithoutCancel(r.Context()), body.Grace))
}

func (s *server) kill(w http.ResponseWriter, r *http.Request) {
	s.end(w, s.m.kill(context.WithoutCancel(r.Context())))
}

func (s *server) end(w http.ResponseWriter, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, s.m.exit)
}

func (s *server) network(w http.ResponseWriter, r *http.Request) {
	var p vm.NetworkPolicy
	if err := readJSONBody(r, &p); err != nil {
		writeError(w, err)
		return
	}
	if err := s.m.setNetwork(r.Context(), p); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

func (s *server) cuts(w http.ResponseWriter, r *http.Request) {
	var p vm.NetworkPolicy
	if err := readJSONBody(r, &p); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, s.m.net.CutBy(p))
}

func (s *server) connections(w http.ResponseWriter, _ *http.Request) {
	writeJSONBody(w, s.m.conns.list())
}

func (s *server) capture(w http.ResponseWriter, r *http.Request) {
	var spec vm.CaptureSpec
	if err := readJSONBody(r, &spec); err != nil {
		writeError(w, err)
		return
	}
	out, err := s.m.capture(r.Context(), spec)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, out)
}

func (s *server) resume(w http.ResponseWriter, r *http.Request) {
	if err := s.m.resume(context.WithoutCancel(r.Context())); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

func (s *server) flatten(w http.ResponseWriter, r *http.Request) {
	var base string
	if err := readJSONBody(r, &base); err != nil {
		writeError(w, err)
		return
	}
	if err := s.m.flatten(r.Context(), base, r.URL.Query().Has("part")); err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, struct{}{})
}

func (s *server) disk(w http.ResponseWriter, r *http.Request) {
	path, err := s.m.disk(r.Context())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, path)
}

func (s *server) resize(w http.ResponseWriter, r *http.Request) {
	var want vm.Size
	if err := readJSONBody(r, &want); err != nil {
		writeError(w, err)
		return
	}
	how, err := s.m.resize(r.Context(), want)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSONBody(w, how)
}

func (s *server) port(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseUint(r.PathValue("port"), 10, 16)
	if err != nil || n == 0 {
		writeError(w, vm.Errorf(vm.Invalid, r.PathValue("port"), "not a port"))
		return
	}
	s.serveStream(w, r, func(ctx context.Context) (net.Conn, error) { return s.m.net.Dial(ctx, uint16(n)) })
}
