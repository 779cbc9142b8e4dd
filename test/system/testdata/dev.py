# A development server as people run them: pages of a directory, a WebSocket that
# tells them when a file has changed, and what the tests of previews ask for.
# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
import base64, hashlib, http.server, json, os, socket, socketserver, struct, sys, threading, time

PAGE = sys.argv[2] if len(sys.argv) > 2 else "/srv/index.html"
RELOAD = """<script>
const s = new WebSocket("wss://" + location.host + "/hot");
s.onmessage = () => fetch("/", {cache: "no-store"}).then(r => r.text()).then(t => {
  document.querySelector("main").innerHTML = new DOMParser().parseFromString(t, "text/html").querySelector("main").innerHTML;
});
</script>"""
lock = threading.Lock()
state = {"count": 0, "blob": b"", "paths": []}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with lock:
            state["paths"].append(self.path)
        path = self.path.split("?")[0]
        if path in ("/ws", "/hot"):
            return self.socket(path)
        if path == "/count":
            with lock:
                state["count"] += 1
            return self.answer(str(state["count"]).encode())
        if path == "/blob":
            return self.answer(state["blob"], "application/octet-stream")
        if path == "/paths":
            return self.answer(json.dumps(state["paths"]).encode())
        if path == "/events":
            return self.events()
        if path == "/":
            with open(PAGE) as f:
                return self.answer((f.read() + RELOAD).encode(), "text/html")
        self.answer(json.dumps({"path": self.path, "peer": self.client_address[1], "header": dict(self.headers.items())}).encode())

    def do_POST(self):
        with lock:
            state["paths"].append(self.path)
        left, parts = int(self.headers.get("Content-Length", 0)), []
        while left > 0:
            parts.append(self.rfile.read(min(left, 1 << 20)))
            if not parts[-1]:
                return
            left -= len(parts[-1])
        state["blob"] = b"".join(parts)
        self.answer(hashlib.sha256(state["blob"]).hexdigest().encode(), "text/plain")

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for i in range(4):
            self.wfile.write(b"data: %d\n\n" % i)
            self.wfile.flush()
            time.sleep(0.4)
        self.close_connection = True

    def socket(self, path):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        if path == "/hot":
            return self.hot()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            size = head[1] & 127
            if size == 126:
                size = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            self.send(bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size))))

    def hot(self):
        seen = os.stat(PAGE).st_mtime_ns
        while True:
            time.sleep(0.2)
            now = os.stat(PAGE).st_mtime_ns
            if now != seen:
                seen = now
                self.send(b"changed")

    def send(self, data):
        self.wfile.write(bytes([0x81, len(data)]) + data)
        self.wfile.flush()

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 64


ADDRESS = sys.argv[3] if len(sys.argv) > 3 else "0.0.0.0"
if ":" in ADDRESS:
    Server.address_family = socket.AF_INET6
Server((ADDRESS, int(sys.argv[1])), Handler).serve_forever()
