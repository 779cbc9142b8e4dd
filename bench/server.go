// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// server is a `warren serve` of this program, with a client for it.
type server struct {
	cmd    *exec.Cmd
	ended  chan struct{} // closed when it has ended; err is set before
	err    error
	dir    layout.Dir
	log    string // file
	url    string
	key    string
	binary string
	http   *http.Client

	ssh, preview, s3 string // addresses of the gateways
}

// startServer starts serve on the data directory, made if it is absent, with
// the images of another one, and waits until it is ready. Its pool keeps that
// many machines.
func startServer(ctx context.Context, binary, data, images string, pool int) (*server, error) {
	dir, err := layout.Open(data)
	if err != nil {
		return nil, err
	}
	if err := borrow(dir, images); err != nil {
		return nil, err
	}
	var free [4]string
	for i := range free {
		if free[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	address := free[0]
	logFile, err := os.Create(data + ".log")
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	s := &server{
		dir: dir, log: logFile.Name(), url: "http://" + address, binary: binary, ended: make(chan struct{}), ssh: free[1], preview: free[2], s3: free[3],
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}},
	}
	s.cmd = exec.Command(binary, "serve", "--data", data, "--listen", address, "--ssh", s.ssh, "--preview", s.preview, "--s3", s.s3, "--pool", strconv.Itoa(pool))
	s.cmd.Stdout, s.cmd.Stderr = logFile, logFile
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C reaches this program, which stops the server properly
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	if err := s.ready(ctx); err != nil {
		said, _ := os.ReadFile(logFile.Name())
		return nil, errors.Join(fmt.Errorf("serve: %w\n%s", err, said), s.stop())
	}
	return s, nil
}

// borrow links the images of another data directory of the same file system into
// dir: nothing is copied, and new warm generations stay in dir.
func borrow(dir layout.Dir, images string) error {
	if images == "" {
		return nil
	}
	return filepath.WalkDir(images, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("borrow images: %w", err)
		}
		rel, err := filepath.Rel(images, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir.Images(), rel)
		switch {
		case d.IsDir() && layout.IsTemp(d.Name()):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		case d.Type().IsRegular():
			return os.Link(path, to)
		}
		return nil
	})
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// tick calls f every 20 ms until it is true, the server ends or ctx does.
func (s *server) tick(ctx context.Context, limit time.Duration, f func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !f() {
		select {
		case <-t.C:
		case <-s.ended:
			return fmt.Errorf("it ended: %w", errors.Join(s.err, io.EOF))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *server) ready(ctx context.Context) error {
	return s.tick(ctx, time.Minute, func() bool {
		key, err := os.ReadFile(s.dir.AdminKey())
		if err != nil {
			return false
		}
		s.key = strings.TrimSpace(string(key))
		return s.call(ctx, "GET", "/readyz", nil, nil) == nil
	})
}

// stop ends the server and the machines that it left behind.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // also after ^C
	defer cancel()
	var errs []error
	if list, err := s.vms(ctx); s.key != "" && err == nil && len(list) < listed {
		errs = append(errs, s.removeVMs(ctx, list))
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
	case <-ctx.Done():
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	s.http.CloseIdleConnections()
	return errors.Join(errs...)
}

// call makes one JSON request.
func (s *server) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	resp, err := s.do(ctx, method, path, body, -1)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: %w in %.200s", method, path, err, data)
	}
	return nil
}

// do sends a request; an answer that is not 2xx is an error.
func (s *server) do(ctx context.Context, method, path string, body io.Reader, size int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	if size >= 0 {
		req.ContentLength = size
		req.Header.Set("Content-Type", "application/octet-stream")
	} else if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, said)
	}
	return resp, nil
}

// createVM makes a VM of the base image and returns its id.
func (s *server) createVM(ctx context.Context, network vm.NetworkMode) (string, error) {
	return s.createOf(ctx, "base", network)
}

// createOf is createVM of an image or a snapshot.
func (s *server) createOf(ctx context.Context, of string, network vm.NetworkMode) (string, error) {
	var out struct{ ID string }
	err := s.call(ctx, "POST", "/v1/vms", map[string]any{"image": of, "network": network, "idleTimeoutSeconds": nil}, &out)
	return out.ID, err
}

func (s *server) remove(ctx context.Context, id string) error {
	return s.call(ctx, "DELETE", "/v1/vms/"+id, nil, nil)
}

// vms are the ids of all VMs.
func (s *server) vms(ctx context.Context) (ids []string, err error) {
	var list struct {
		VMs []struct{ ID string } `json:"vms"`
	}
	err = s.call(ctx, "GET", "/v1/vms", nil, &list)
	for _, v := range list.VMs {
		ids = append(ids, v.ID)
	}
	return ids, err
}

// removeVMs deletes VMs, two at a time, and continues after errors.
func (s *server) removeVMs(ctx context.Context, ids []string) error {
	next := make(chan string, len(ids))
	for _, id := range ids {
		next <- id
	}
	close(next)
	var wg sync.WaitGroup
	var errs [2]error
	for i := range errs {
		wg.Go(func() {
			for id := range next {
				errs[i] = errors.Join(errs[i], s.remove(ctx, id))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// removeAll deletes all VMs, and all snapshots but one.
func (s *server) removeAll(ctx context.Context, except string) error {
	ids, err := s.vms(ctx)
	if err != nil {
		return err
	}
	errs := []error{s.removeVMs(ctx, ids)}
	var list api.SnapshotList
	if err := s.call(ctx, "GET", "/v1/vms/snapshots", nil, &list); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, g := range list.Snapshots {
		if g.GenerationID != "" && string(g.SnapshotID) != except { // the others are images
			errs = append(errs, s.removeSnapshot(ctx, g.SnapshotID))
		}
	}
	return errors.Join(errs...)
}

// snapshot captures a snapshot of a VM. It is durable when it returns.
func (s *server) snapshot(ctx context.Context, id string) (out api.TakenSnapshot, err error) {
	return out, s.call(ctx, "POST", "/v1/vms/"+id+"/snapshot", map[string]any{}, &out)
}

func (s *server) removeSnapshot(ctx context.Context, id vm.SnapshotID) error {
	return s.call(ctx, "DELETE", "/v1/vms/snapshots/"+string(id), nil, nil)
}

// durable waits until a generation of a VM is written through.
func (s *server) durable(ctx context.Context, id string, gen vm.GenerationID) error {
	var failed error
	err := s.tick(ctx, time.Minute, func() bool {
		var out api.Lineage
		failed = s.call(ctx, "GET", "/v1/vms/"+id+"/lineage", nil, &out)
		return failed != nil || slices.ContainsFunc(out.Generations, func(g vm.Generation) bool { return g.ID == gen && g.Durable })
	})
	return errors.Join(err, failed)
}

// exec runs a program and fails when it does.
func (s *server) exec(ctx context.Context, id string, argv ...string) error {
	data, err := json.Marshal(vm.ExecSpec{Argv: argv})
	if err != nil {
		return err
	}
	resp, err := s.do(ctx, "POST", "/v1/vms/"+id+"/exec", bytes.NewReader(data), -1)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var said bytes.Buffer
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("exec of %v ended without a status: %w", argv, err)
		}
		var e struct {
			Type   string        `json:"type"`
			Data   []byte        `json:"data"`
			Status vm.ExitStatus `json:"status"`
			Error  any           `json:"error"`
		}
		if len(bytes.TrimSpace(line)) == 0 { // it keeps the connection alive
			continue
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		switch e.Type {
		case "stdout", "stderr":
			said.Write(e.Data)
		case "error":
			return fmt.Errorf("exec of %v: %v", argv, e.Error)
		case "exit":
			if _, err := io.Copy(io.Discard, lines); err != nil { // so that the connection is kept
				return err
			}
			if e.Status.Code != 0 {
				return fmt.Errorf("exec of %v: status %d: %s", argv, e.Status.Code, said.Bytes())
			}
			return nil
		}
	}
}

// execAwait runs a shell command by the contract's route.
func (s *server) execAwait(ctx context.Context, id, command string) error {
	var out struct {
		StatusCode *int   `json:"statusCode"`
		Stderr     string `json:"stderr"`
	}
	err := s.call(ctx, "POST", "/v1/vms/"+id+"/exec-await", map[string]any{"command": command, "terminal": nil, "timeoutMs": nil}, &out)
	if err == nil && (out.StatusCode == nil || *out.StatusCode != 0) {
		return fmt.Errorf("%q failed: %s", command, out.Stderr)
	}
	return err
}

// cli prepares a run of the command line against this server.
func (s *server) cli(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Env = append(os.Environ(), "WARREN_API_URL="+s.url, "WARREN_API_KEY="+s.key, "WARREN_DATA="+string(s.dir))
	return cmd
}

// finish runs a command and says what it printed when it fails.
func finish(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err, bytes.TrimSpace(out))
	}
	return nil
}
