// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// Hook writes a program for acmeDnsHook that sets TXT records of this server. It returns
// the arguments of its calls; with fail the program fails.
func (d *DNS) Hook(path string, fail bool) (calls func() []string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.hooks = append(d.hooks, l)
	d.mu.Unlock()
	var told []string // guarded by mu
	d.run.Go(func() { // ends with Close
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			line = strings.TrimSpace(line)
			d.mu.Lock()
			told = append(told, line)
			d.mu.Unlock()
			if f := strings.Fields(line); len(f) == 3 && !fail {
				d.change(f[0], strings.TrimSuffix(f[1], "."), f[2])
				_, _ = conn.Write([]byte("ok\n")) // without this answer the program fails
			}
			_ = conn.Close()
		}
	})
	script := "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/%d\necho \"$*\" >&3\nread -r answer <&3\necho \"the zone says: ${answer:-nothing}\"\n[ \"$answer\" = ok ]\n"
	script = fmt.Sprintf(script, l.Addr().(*net.TCPAddr).Port)
	return func() []string {
		d.mu.Lock()
		defer d.mu.Unlock()
		return slices.Clone(told)
	}, os.WriteFile(path, []byte(script), 0o755)
}

// change sets or removes one of a name's TXT records.
func (d *DNS) change(verb, name, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = strings.ToLower(name)
	list := slices.DeleteFunc(slices.Clone(d.txt[name]), func(s string) bool { return s == value })
	if verb == "present" {
		list = append(list, value)
	}
	d.txt[name] = list
}
