// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

const (
	readDefault = 64 << 10 // bytes of a file that one answer holds
	readMost    = 1 << 20
	writeMost   = 2 << 20 // bytes of text that one call writes
)

type readFileIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine; a sleeping one wakes"`
	Path    string `json:"path" jsonschema:"the file; a relative path begins in the machine's working directory"`
	User    string `json:"user,omitempty" jsonschema:"Linux user; default root"`
	Offset  int64  `json:"offset,omitempty" jsonschema:"first byte; default 0"`
	Limit   int    `json:"limit,omitempty" jsonschema:"most bytes; default 65536, at most 1048576"`
}

type readFileOut struct {
	Content  string `json:"content"`
	Encoding string `json:"encoding" jsonschema:"utf8, or base64 for what is no text"`
	Size     int64  `json:"size" jsonschema:"of the whole file"`
	Next     int64  `json:"next_offset,omitempty" jsonschema:"absent when the end is reached"`
}

type writeFileIn struct {
	Machine  string `json:"machine" jsonschema:"name or id of the machine; a sleeping one wakes"`
	Path     string `json:"path" jsonschema:"the file; missing directories are made"`
	Content  string `json:"content" jsonschema:"the whole new content, at most 2 MiB"`
	Encoding string `json:"encoding,omitempty" jsonschema:"utf8 (default) or base64"`
	User     string `json:"user,omitempty" jsonschema:"Linux user who owns it; default root"`
	Mode     string `json:"mode,omitempty" jsonschema:"permissions in octal, such as 755; default: as before, else 644"`
}

type writeFileOut struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"sha256"`
}

type listFilesIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine; a sleeping one wakes"`
	Path    string `json:"path,omitempty" jsonschema:"the directory; default the working directory"`
	User    string `json:"user,omitempty" jsonschema:"Linux user; default root"`
}

type fileEntry struct {
	Name    string `json:"name"`
	Kind    string `json:"kind" jsonschema:"file, directory, symlink or other"`
	Size    int64  `json:"size"`
	Mode    string `json:"mode"`
	ModTime string `json:"modified_at"`
	Target  string `json:"target,omitempty" jsonschema:"of a link"`
}

type listFilesOut struct {
	Entries []fileEntry `json:"entries"`
	More    int         `json:"more,omitempty" jsonschema:"how many entries are left out"`
}

func (s *Server) addFiles() {
	add(s, &mcp.Tool{
		Name: "read_file", Annotations: reads("Read a file"),
		Description: "Read a file of a machine, or a part of it.",
	}, readFile)
	add(s, &mcp.Tool{
		Name: "write_file", Annotations: loses("Write a file"),
		Description: "Write a file of a machine. It appears whole or not at all, and replaces one that is there.",
	}, writeFile)
	add(s, &mcp.Tool{
		Name: "list_files", Annotations: reads("List a directory"),
		Description: "List the entries of a directory of a machine.",
	}, listFiles)
}

func readFile(ctx context.Context, k *call, in readFileIn) (out readFileOut, err error) {
	if in.Offset < 0 || in.Limit < 0 {
		return out, vm.Errorf(vm.Invalid, "offset", "a part of a file has no negative offset or limit")
	}
	most := min(in.Limit, readMost)
	if most == 0 {
		most = readDefault
	}
	size, data, err := part(ctx, k.c, in.Machine, in.User, in.Path, in.Offset, most)
	if err != nil {
		return out, err
	}
	out.Size = size
	if end := in.Offset + int64(len(data)); end < size && len(data) > 0 {
		out.Next = end
	}
	out.Content, out.Encoding = textOr64(data)
	return out, nil
}

// part reads bytes of a file from an offset on.
func part(ctx context.Context, c *client.Client, machine, user, path string, offset int64, most int) (size int64, data []byte, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends the request when enough is read
	defer cancel()
	size, r, err := c.GetRaw(ctx, machine, user, path, 0)
	if err != nil {
		return 0, nil, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, min(offset, size)); err != nil {
		return 0, nil, err
	}
	data, err = readUpTo(r, most)
	return size, data, err
}

// readUpTo reads at most so many bytes.
func readUpTo(r io.Reader, most int) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(most)))
}

// textOr64 returns text as it is, also if its last character is cut, and other bytes as
// base64.
func textOr64(data []byte) (text, encoding string) {
	whole := data
	for cut := 0; cut < utf8.UTFMax && cut < len(data); cut++ {
		if utf8.Valid(data[:len(data)-cut]) {
			whole = data[:len(data)-cut]
			break
		}
	}
	if utf8.Valid(whole) && !bytes.ContainsRune(whole, 0) {
		return string(whole), "utf8"
	}
	return base64.StdEncoding.EncodeToString(data), "base64"
}

func writeFile(ctx context.Context, k *call, in writeFileIn) (out writeFileOut, err error) {
	data := []byte(in.Content)
	switch in.Encoding {
	case "", "utf8":
	case "base64":
		if data, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return out, vm.Errorf(vm.Invalid, "content", "is not base64: %w", err)
		}
	default:
		return out, vm.Errorf(vm.Invalid, "encoding", "%q is neither utf8 nor base64", vm.Clip(in.Encoding, 40))
	}
	if len(data) > writeMost {
		return out, vm.Errorf(vm.Limit, in.Path, "%d bytes are more than the %d that one call writes", len(data), writeMost).
			WithHint("write it in parts with exec, or copy it with `warren cp`")
	}
	mode := uint64(0)
	if in.Mode != "" {
		if mode, err = strconv.ParseUint(in.Mode, 8, 12); err != nil {
			return out, vm.Errorf(vm.Invalid, "mode", "%q are not permissions in octal", vm.Clip(in.Mode, 40)).WithHint("such as 644 or 755")
		}
	}
	w, err := k.c.PutRaw(ctx, in.Machine, in.User, in.Path, uint32(mode), true, int64(len(data)), bytes.NewReader(data))
	return writeFileOut{Bytes: int64(len(data)), Digest: w.Digest}, err
}

func listFiles(ctx context.Context, k *call, in listFilesIn) (out listFilesOut, err error) {
	if in.Path == "" {
		in.Path = "."
	}
	l, err := k.c.ReadDir(ctx, in.Machine, in.User, in.Path)
	if err != nil {
		return out, err
	}
	out.More = max(0, len(l)-listMost)
	out.Entries = []fileEntry{}
	for _, f := range l[:len(l)-out.More] {
		out.Entries = append(out.Entries, fileEntry{
			Name: shown(f.Name), Kind: string(f.Kind), Size: f.Size, Mode: fmt.Sprintf("%04o", f.Mode), ModTime: f.ModTime.Format(time.RFC3339), Target: shown(f.Target),
		})
	}
	return out, nil
}

// shown is a name of a guest as it may be shown.
func shown(name string) string { return vm.GuestPath(name).String() }
