// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// right is the right that a route requires.
type right string

const (
	public  right = "public"  // nothing
	token   right = "token"   // an API key, or any token
	granted right = "vm"      // an API key, or a token whose identity has a permission for the VM
	asUser  right = "vm-user" // like granted, and for the Linux user in the request's header
	key     right = "key"     // an API key; the engine keeps accounts apart
	admin   right = "admin"   // an admin's API key
	forGit  right = "git"     // nothing for a public repository, else Basic authentication with an API key or token
)

// forTokens reports whether a token is enough.
func (r right) forTokens() bool { return r == token || r == granted || r == asUser }

// route is one row of the table. A pattern's segments are literals, {name} for
// one segment, or, at the end, {name...} for the rest of the path.
type route struct {
	method  string
	pattern string
	right   right
	handle  func(*request) error
	doc     string
	in, out any // example values of the JSON bodies, for /openapi.json; nil = none or a stream
	stream  bool
	query   string // names of its query parameters
}

// routes is the whole API. Rows are tried in order, so literals come first.
func (s *server) routes() []route {
	var rows []route
	rows = append(rows, s.publicRoutes()...)
	rows = append(rows, s.hostRoutes()...)
	rows = append(rows, s.mcpRoutes()...)
	rows = append(rows, s.auditRoutes()...)
	rows = append(rows, s.snapshotRoutes()...) // before the routes with a VM's id
	rows = append(rows, s.vmRoutes()...)
	rows = append(rows, s.networkRoutes()...)
	rows = append(rows, s.forkRoutes()...)
	rows = append(rows, s.turnRoutes()...)
	rows = append(rows, s.diffRoutes()...)
	rows = append(rows, s.idleRoutes()...)
	rows = append(rows, s.retentionRoutes()...)
	rows = append(rows, s.execRoutes()...)
	rows = append(rows, s.terminalRoutes()...)
	rows = append(rows, s.fileRoutes()...)
	rows = append(rows, s.serviceRoutes()...)
	rows = append(rows, s.volumeRoutes()...)
	rows = append(rows, s.previewRoutes()...)
	rows = append(rows, s.screenRoutes()...)
	rows = append(rows, s.domainRoutes()...)
	rows = append(rows, s.dnsRoutes()...)
	rows = append(rows, s.identityRoutes()...)
	rows = append(rows, s.askRoutes()...)
	rows = append(rows, s.sshRoutes()...)
	rows = append(rows, s.vmRepoRoutes()...)
	rows = append(rows, s.storageRoutes()...)
	rows = append(rows, s.commitRoutes()...)
	rows = append(rows, s.memoryRoutes()...)
	rows = append(rows, s.backupRoutes()...)
	rows = append(rows, s.objectRoutes()...)
	rows = append(rows, s.secretRoutes()...)
	rows = append(rows, s.shipRoutes()...)
	rows = append(rows, s.bundleRoutes()...)
	rows = append(rows, s.repoTable()...)
	rows = append(rows, s.gitRoutes()...) // last: its first segment is a repository
	return rows
}

func (s *server) publicRoutes() []route {
	return []route{
		{"GET", "/healthz", public, s.health, "The process runs.", nil, healthBody{}, false, ""},
		{"GET", "/readyz", public, s.ready, "The server accepts requests.", nil, healthBody{}, false, ""},
		{"GET", "/openapi.json", public, s.openapi, "This description.", nil, nil, false, ""},
	}
}

func (s *server) hostRoutes() []route {
	return []route{
		{"GET", "/auth/v1/whoami", token, s.whoami, "The account or identity of the caller.", nil, api.WhoAmI{}, false, ""},
		{"GET", "/auth/v1/background-requests/{request}", key, s.answerOf, "The answer of a request that ran in the background; 202 while it still runs.", nil, nil, false, ""},
		{"GET", "/observability/v1/logs", key, s.logs, "Log lines of a background request.", nil, api.Logs{}, false, "requestId"},
		{"GET", "/v1/events", key, s.events, "Events as they happen (SSE); resumed by Last-Event-ID.", nil, nil, true, "types vm after"},
		{"GET", "/v1/images", key, s.images, "Images of this host.", nil, api.ImageList{}, false, ""},
		{"GET", "/v1/host", key, s.host, "Platform, capacity and VMs of this host.", nil, api.Host{}, false, ""},
		{"GET", "/v1/config", admin, s.config, "Effective settings with their origin.", nil, nil, false, ""},
		{"GET", "/v1/accounts", admin, s.accounts, "Accounts.", nil, api.AccountList{}, false, ""},
		{"POST", "/v1/accounts", admin, s.createAccount, "Create an account with a first key, shown once.", api.NewAccount{}, api.CreatedAccount{}, false, ""},
		{"DELETE", "/v1/accounts/{account}", admin, s.removeAccount, "Remove an account; with force also its VMs.", nil, okBody{}, false, "force"},
		{"GET", "/v1/keys", key, s.keys, "API keys, without their secrets; admins: of any account.", nil, api.KeyList{}, false, "account"},
		{"POST", "/v1/keys", key, s.createKey, "Create an API key, shown once.", api.NewKey{}, api.CreatedKey{}, false, ""},
		{"POST", "/v1/keys/{key}/rotate", key, s.rotateKey, "Replace a key's secret.", nil, api.CreatedKey{}, false, ""},
		{"DELETE", "/v1/keys/{key}", key, s.revokeKey, "Revoke a key.", nil, okBody{}, false, ""},
	}
}

func (s *server) snapshotRoutes() []route {
	return []route{
		{"GET", "/v1/vms/snapshots", key, s.snapshots, "Snapshots of the images and of the account.", nil, api.SnapshotList{}, false, "includeDeleted includeFailed includeBuilding includeCancelled includeLost"},
		{"POST", "/v1/vms/snapshots", key, s.buildSnapshot, "Make a snapshot from a spec.", api.BuildSnapshot{}, api.BuiltSnapshot{}, false, ""},
		{"GET", "/v1/vms/snapshots/{snapshot}", key, s.snapshot, "One snapshot.", nil, api.Snapshot{}, false, ""},
		{"DELETE", "/v1/vms/snapshots/{snapshot}", key, s.deleteSnapshot, "Delete a snapshot; VMs made from it stay.", nil, api.ChangedSnapshot{}, false, ""},
		{"PATCH", "/v1/vms/snapshots/{snapshot}", key, s.renameSnapshot, "Rename a snapshot.", api.NameSnapshot{}, api.ChangedSnapshot{}, false, ""},
		{"GET", "/v1/vms/builds/{build}", key, s.build, "One build: a VM or snapshot being made from a spec.", nil, api.Build{}, false, ""},
		{"GET", "/v1/vms/builds/{build}/phases", key, s.buildPhases, "The phases of a build.", nil, api.BuildPhases{}, false, ""},
	}
}

func (s *server) vmRoutes() []route {
	return []route{
		{"POST", "/v1/vms", key, s.create, "Create a VM and start it; answers when it is usable.", api.CreateVM{}, api.CreatedVM{}, false, ""},
		{"GET", "/v1/vms", token, s.list, "VMs, oldest first.", nil, api.VMList{}, false, "vmState search label limit offset all"},
		{"GET", "/v1/vms/{vm}", granted, s.get, "One VM.", nil, api.VM{}, false, ""},
		{"DELETE", "/v1/vms/{vm}", key, s.delete, "Delete a VM in any state, with its disk and logs; with shred=true its keys are destroyed before the answer, which lists what is unreadable and what is not.", nil, api.DeletedVM{}, false, "shred"},
		{"GET", "/v1/vms/{vm}/inspect", key, s.inspect, "All details of a VM and its machine.", nil, api.Inspection{}, false, ""},
		{"POST", "/v1/vms/{vm}/start", granted, s.start, "Start a stopped VM; a running one does not change.", api.StartVM{}, api.StartedVM{}, false, ""},
		{"POST", "/v1/vms/{vm}/stop", key, s.stop, "Stop: the disk is kept, memory is not.", nil, api.StoppedVM{}, false, ""},
		{"POST", "/v1/vms/{vm}/kill", key, s.kill, "End the machine at once; the disk is as of its last sync.", nil, idBody{}, false, ""},
		{"POST", "/v1/vms/{vm}/await", granted, s.await, "Wait until the VM no longer runs.", nil, awaited{}, false, ""},
		{"POST", "/v1/vms/{vm}/optimize", key, s.optimize, "Nothing to do in this version.", nil, nil, false, ""},
		{"GET", "/v1/vms/{vm}/build", key, s.buildOf, "The build that made the VM.", nil, api.Build{}, false, ""},
		{"GET", "/v1/vms/{vm}/terminals", asUser, s.terminals, "Legacy terminals: none.", nil, nil, false, ""},
		{"GET", "/v1/vms/{vm}/stats", granted, s.stats, "CPU, memory, disk, processes and ports of the guest.", nil, vm.Stats{}, false, ""},
		{"GET", "/v1/vms/{vm}/state", granted, s.state, "The state of the guest: processes, terminals, ports with their answer to a request, services, mounts, roles; what the last start lost.", nil, vm.GuestState{}, false, ""},
		{"GET", "/v1/vms/{vm}/ports", granted, s.ports, "Listening ports of the guest.", nil, api.Ports{}, false, ""},
		{"POST", "/v1/vms/{vm}/ports/{port}/wait", granted, s.waitPort, "Wait until a program in the guest accepts connections on a TCP port, on its network or loopback.", nil, api.OpenPort{}, false, "timeoutMs"},
		{"POST", "/v1/vms/{vm}/rename", key, s.renameVM, "Give a VM another name, which no other VM of the account has.", api.RenameVM{}, api.VM{}, false, ""},
		{"PATCH", "/v1/vms/{vm}/labels", key, s.label, "Set and remove labels of a VM.", api.LabelVM{}, api.VM{}, false, ""},
		{"GET", "/v1/vms/{vm}/paths", key, s.pathRules, "The path rules of a VM, in order, with the places where each holds and where root in the guest makes it void.", nil, api.PathRules{}, false, ""},
		{"POST", "/v1/vms/{vm}/paths", key, s.addPath, "Add a path rule before all others, in place of one with the same pattern.", api.AddPath{}, api.PathRules{}, false, ""},
		{"PUT", "/v1/vms/{vm}/paths", key, s.setPaths, "Set all path rules of a VM, in order.", api.SetPaths{}, api.PathRules{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/paths", key, s.removePath, "Remove the path rule with an id or a pattern.", nil, api.PathRules{}, false, "rule mount"},
		{"GET", "/v1/vms/{vm}/logs", key, s.console, "The console's log.", nil, nil, true, "source from follow"},
		{"GET", "/v1/vms/{vm}/top", granted, s.top, "What the guest does now: processes, what blocked ones wait for, ports, services, last log lines; with seconds, shares of the CPU.", nil, vm.Top{}, false, "seconds brief"},
		{"GET", "/v1/vms/{vm}/diagnose", granted, s.diagnose, "What is wrong with the VM: findings with evidence and what to do. A VM that does not run is not woken.", nil, vm.Diagnosis{}, false, "seconds"},
	}
}

func (s *server) execRoutes() []route {
	return []route{
		{"POST", "/v1/vms/{vm}/exec-await", asUser, s.execAwait, "Run a shell command and wait for it.", api.ExecAwait{}, api.ExecResult{}, false, ""},
		{"GET", "/v1/vms/{vm}/exec", granted, s.execSocket, "Run a command over a WebSocket.", nil, nil, true, ""},
		{"POST", "/v1/vms/{vm}/exec", granted, s.execChunked, "Run a command; output as lines of JSON.", api.ExecChunked{}, api.ExecMessage{}, true, ""},
		{"GET", "/v1/vms/{vm}/processes", asUser, s.processes, "Commands started by exec, running or ended.", nil, api.ProcessList{}, false, ""},
		{"POST", "/v1/vms/{vm}/processes", granted, s.startProcess, "Start a command in the background.", vm.ExecSpec{}, api.StartedProcess{}, false, ""},
		{"GET", "/v1/vms/{vm}/processes/{process}", asUser, s.process, "One process.", nil, vm.Process{}, false, ""},
		{"DELETE", "/v1/vms/{vm}/processes/{process}", asUser, s.forgetProcess, "Forget an ended process and its log.", nil, okBody{}, false, ""},
		{"POST", "/v1/vms/{vm}/processes/{process}/wait", asUser, s.waitProcess, "Wait for its end.", nil, vm.Process{}, false, "timeoutMs"},
		{"POST", "/v1/vms/{vm}/processes/{process}/signal", asUser, s.signalProcess, "Send a signal to its group.", api.Signal{}, okBody{}, false, ""},
		{"GET", "/v1/vms/{vm}/processes/{process}/log", asUser, s.processLog, "Its output.", nil, nil, true, "from follow"},
	}
}

func (s *server) terminalRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/pty", asUser, s.openPty, "Open a terminal over a WebSocket; exec runs a command line in place of the login shell.", nil, nil, true, "cols rows exec sessionId cwd env"},
		{"GET", "/v1/vms/{vm}/pty/sessions", asUser, s.ptySessions, "Terminals, running or recently ended.", nil, api.PtySessionList{}, false, ""},
		{"GET", "/v1/vms/{vm}/pty/sessions/{session}", asUser, s.attachPty, "Attach to a terminal over a WebSocket; since replays output from an offset in place of the screen.", nil, nil, true, "cols rows since"},
		{"DELETE", "/v1/vms/{vm}/pty/sessions/{session}", asUser, s.closePty, "End a terminal's programs and forget it.", nil, api.ClosedPty{}, false, ""},
		{"GET", "/v1/vms/{vm}/pty/sessions/{session}/screen", asUser, s.ptyScreen, "A terminal's screen, as text or, with format=json, with colours and cursor.", nil, api.PtyScreen{}, false, "format"},
		{"GET", "/v1/vms/{vm}/pty/sessions/{session}/scrollback", asUser, s.ptyScrollback, "A terminal's output from an offset on, as text; raw=true: as it is.", nil, nil, false, "since raw"},
		{"POST", "/v1/vms/{vm}/pty/sessions/{session}/input", asUser, s.ptyInput, "Type into a terminal, wait until it is quiet, and return the output.", api.PtyInput{}, api.PtyOutput{}, false, ""},
	}
}

func (s *server) fileRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/files/{path...}", asUser, s.getFile, "A file's content, or a directory's entries.", nil, api.FileContent{}, false, ""},
		{"PUT", "/v1/vms/{vm}/files/{path...}", asUser, s.putFile, "Write a file.", api.FileContent{}, okBody{}, false, ""},
		{"POST", "/v1/vms/{vm}/watch-files", asUser, s.watchFiles, "Changes below the paths, else below the working directory, as lines of JSON.", nil, vm.FileEvent{}, true, "path"},
		{"GET", "/v1/vms/{vm}/fs/stat", asUser, s.stat, "One entry.", nil, vm.FileInfo{}, false, "path"},
		{"GET", "/v1/vms/{vm}/fs/list", asUser, s.readDir, "A directory's entries.", nil, api.FileList{}, false, "path"},
		{"GET", "/v1/vms/{vm}/fs/watch", asUser, s.watch, "Changes below a directory, as lines of JSON.", nil, vm.FileEvent{}, true, "path recursive"},
		{"GET", "/v1/vms/{vm}/fs/tree", asUser, s.listTree, "A tree's entries with digests, as lines of JSON, with an end mark.", nil, nil, true, "path from exclude pair"},
		{"POST", "/v1/vms/{vm}/fs/pick", asUser, s.pickFiles, "The contents of many files below a directory.", vm.TreePick{}, nil, true, "path"},
		{"PUT", "/v1/vms/{vm}/fs/place", asUser, s.placeFiles, "Make many changes below a directory, each only if the path is as expected.", nil, vm.TreePlaced{}, true, "path pair mark"},
		{"POST", "/v1/vms/{vm}/fs/mkdir", asUser, s.mkdir, "Make a directory.", api.FileOp{}, okBody{}, false, ""},
		{"POST", "/v1/vms/{vm}/fs/rename", asUser, s.rename, "Rename.", api.FileOp{}, okBody{}, false, ""},
		{"POST", "/v1/vms/{vm}/fs/remove", asUser, s.remove, "Remove.", api.FileOp{}, okBody{}, false, ""},
		{"POST", "/v1/vms/{vm}/fs/chmod", asUser, s.chmod, "Set permission bits.", api.FileOp{}, okBody{}, false, ""},
		{"POST", "/v1/vms/{vm}/fs/symlink", asUser, s.symlink, "Make a symlink.", api.FileOp{}, okBody{}, false, ""},
		{"GET", "/v1/vms/{vm}/raw/{path...}", asUser, s.getRaw, "A file's bytes, with length and digest.", nil, nil, true, "maxBytes"},
		{"PUT", "/v1/vms/{vm}/raw/{path...}", asUser, s.putRaw, "Write a file of any size.", nil, api.WrittenFile{}, true, "mode parents"},
		{"GET", "/v1/vms/{vm}/tar/{path...}", asUser, s.getTar, "A tree as tar, with an end mark.", nil, nil, true, ""},
		{"PUT", "/v1/vms/{vm}/tar/{path...}", asUser, s.putTar, "Unpack a tar below a directory.", nil, okBody{}, true, ""},
	}
}

// segments splits an escaped path and unescapes each part, so that %2F stays within one.
func segments(escaped string) ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, p := range parts {
		u, err := url.PathUnescape(p)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, escaped, "not a path: %w", err)
		}
		parts[i] = u
	}
	return parts, nil
}

// match returns the values of a pattern's names if the path matches.
func match(pattern, path []string) (map[string]string, bool) {
	values := map[string]string{}
	for i, p := range pattern {
		name, isName := strings.CutPrefix(p, "{")
		name = strings.TrimSuffix(name, "}")
		if rest, ok := strings.CutSuffix(name, "..."); ok && isName {
			values[rest] = strings.Join(path[min(i, len(path)):], "/")
			return values, len(path) > i
		}
		if i >= len(path) || !isName && path[i] != p || isName && path[i] == "" {
			return nil, false
		}
		if isName {
			values[name] = path[i]
		}
	}
	return values, len(path) == len(pattern)
}

// find returns the row for a request. A path that exists only with other methods gives
// 405.
func (s *server) find(r *http.Request) (route, map[string]string, error) {
	path, err := segments(r.URL.EscapedPath())
	if err != nil {
		return route{}, nil, err
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	known := false
	for i := range s.table {
		row := &s.table[i]
		values, ok := match(row.segments, path)
		if !ok {
			continue
		}
		if row.method == method && (r.Method == method || !row.stream) { // no HEAD of streams
			return row.route, values, nil
		}
		known = true
	}
	if known {
		return route{}, nil, vm.Errorf(vm.Unsupported, r.URL.Path, "%s is not allowed here", r.Method).WithHint("see /openapi.json")
	}
	return route{}, nil, vm.Errorf(vm.NotFound, r.URL.Path, "no such route").WithHint("see /openapi.json")
}
