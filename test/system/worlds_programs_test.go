//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

// Programs that run in a guest while it is forked. They are written to a file
// below /opt there and know nothing of Warren.
var programs = map[string]string{
	// drawer draws random bytes and identifiers in a tight loop, and beside each
	// draw reads the machine's clock chip, which shows the host's time also when
	// the guest's own clock was not put right yet. It keeps them in memory.
	"drawer.py": `
import fcntl, os, signal, struct, sys, time, uuid
rtc = open("/dev/rtc0", "rb", buffering=0) if "rtc" in sys.argv else None
raw = bytearray(36)
drawn = []
def write(*_):
    with open("/run/drawn.new", "w") as f:
        for d in drawn: f.write("%s %s %d %.6f\n" % d)
    os.rename("/run/drawn.new", "/run/drawn")
    os._exit(0)
signal.signal(signal.SIGTERM, write)
open("/run/drawing", "w").close()
while True:
    second = 0
    if rtc:
        fcntl.ioctl(rtc, 0x80247009, raw) # RTC_RD_TIME
        s, m, h = struct.unpack("3i", raw[:12])
        second = h * 3600 + m * 60 + s
    drawn.append((os.urandom(16).hex(), uuid.uuid4().hex, second, time.monotonic()))
`,
	// counter serves a number that only its memory holds.
	"counter.py": `
import http.server
n = 0
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        global n
        n += 1
        b = str(n).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(b))); self.end_headers()
        self.wfile.write(b)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("", 3000), H).serve_forever()
`,
	// ticker watches the monotonic clock: its largest step, and any step back.
	"ticker.py": `
import os, time
last, most, back = time.monotonic(), 0.0, 0
n = 0
said = os.open("/run/ticker", os.O_RDWR | os.O_CREAT)
while True:
    time.sleep(0.01)
    now = time.monotonic()
    back += now < last
    most = max(most, now - last)
    last = now
    n += 1
    if n % 10 == 0:
        os.pwrite(said, b"%12.3f %6d %12d\n" % (most, back, n), 0) # never seen empty
`,
	// writer commits rows, and says which after the commit.
	"writer.py": `
import os, sqlite3, time
c = sqlite3.connect("/root/w.db", isolation_level=None)
c.execute("pragma synchronous=full")
c.execute("create table if not exists t (n integer primary key, pad text)")
n = c.execute("select coalesce(max(n), 0) from t").fetchone()[0]
said = os.open("/run/committed", os.O_RDWR | os.O_CREAT)
while True:
    n += 1
    c.execute("insert into t values (?, ?)", (n, "x" * 500))
    os.pwrite(said, b"%d\n" % n, 0)
    time.sleep(0.02)
`,
	// watcher says which files appear, by inotify.
	"watcher.py": `
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs("/root/watched", exist_ok=True)
fd = libc.inotify_init1(0)
assert libc.inotify_add_watch(fd, b"/root/watched", 0x100) > 0 # IN_CREATE
open("/run/watching", "w").close()
while True:
    buf = os.read(fd, 4096)
    while buf:
        _, _, _, n = struct.unpack("iIII", buf[:16])
        with open("/run/seen", "a") as f: f.write(buf[16:16+n].rstrip(b"\0").decode() + "\n")
        buf = buf[16+n:]
`,
	// timer waits on a timerfd of the monotonic clock, and says when it fired.
	"timer.py": `
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.timerfd_create(1, 0)
it = struct.pack("qqqq", 0, 0, int(sys.argv[1]), 0)
assert libc.timerfd_settime(fd, 0, it, None) == 0
begin = time.monotonic()
open("/run/timing", "w").close()
os.read(fd, 8)
with open("/run/fired.new", "w") as f: f.write("%.3f" % (time.monotonic() - begin))
os.rename("/run/fired.new", "/run/fired")
`,
	// pair keeps a TCP connection of the loopback open and sends over it.
	"pair.py": `
import os, socket, time
said = os.open("/run/pair", os.O_RDWR | os.O_CREAT)
l = socket.create_server(("127.0.0.1", 4000))
a = socket.create_connection(("127.0.0.1", 4000)); b, _ = l.accept()
n = 0
while True:
    n += 1
    a.sendall(b"%8d" % n)
    got = b.recv(8, socket.MSG_WAITALL)
    os.pwrite(said, got.strip() + b"\n", 0) # never seen empty
    time.sleep(0.05)
`,
	// outside keeps a connection to the outside open, says how it ends, and
	// connects again.
	"outside.py": `
import socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
def say(s):
    with open("/run/outside", "a") as f: f.write(s + "\n")
while True:
    try:
        c = socket.create_connection((host, port), 10)
        c.settimeout(10)
        say("connected")
        while True:
            c.sendall(("HEAD / HTTP/1.1\r\nHost: %s\r\n\r\n" % host).encode())
            if not c.recv(4096): raise ConnectionError("closed")
            time.sleep(0.3)
    except OSError as e:
        say("lost " + type(e).__name__)
        time.sleep(0.2)
`,
	// holder holds a value in memory and gives or changes it over a unix socket.
	"holder.py": `
import os, socket
value = "unset"
s = socket.socket(socket.AF_UNIX); s.bind("/run/holder"); s.listen()
while True:
    c, _ = s.accept()
    m = c.recv(100).decode()
    if m != "?": value = m
    c.sendall(value.encode()); c.close()
`,
}
