# A site with a log-in: it knows its visitors by a cookie, and notes each visit in
# /tmp/visits. The block in the corner is blue for strangers and red for those it knows.
import http.server, urllib.parse

PAGE = """<!doctype html><meta charset=utf-8><title>%s</title>
<style>body{margin:0;font:32px sans-serif;background:#fff}div{width:320px;height:160px;background:%s}
input,button{font:inherit;margin:16px}h1{margin:16px}</style><div></div>%s"""
FORM = "<form method=post><input name=name autofocus><input name=password type=password><button>Log in</button></form>"

class Site(http.server.BaseHTTPRequestHandler):
    def name(self):
        for part in self.headers.get("Cookie", "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == "who":
                return value
        return ""

    def do_GET(self):
        if self.path != "/":
            self.send_error(404)
            return
        name = self.name()
        with open("/tmp/visits", "a") as f:
            f.write((name or "stranger") + "\n")
        page = PAGE % (("Welcome", "#d81b60", "<h1>Welcome, %s</h1>" % name) if name else ("Log in", "#1e88e5", FORM))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(page.encode())

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(303)
        self.send_header("Location", "/")
        if form.get("password") == ["secret"]:
            self.send_header("Set-Cookie", "who=" + form["name"][0] + "; HttpOnly")
        self.end_headers()

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Site).serve_forever()
