# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0

"""The server of the code interpreter in a sandbox.

It keeps contexts, each a Python process with its own variables, and answers POST /execute with
lines of JSON while the code runs. POST /environment says what all code finds in os.environ.
Started with --kernel it is such a process. With --warm, the first context has imported what
figures and tables need before the server listens.
"""
import ast
import asyncio
import base64
import importlib
import inspect
import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 16 << 20
FORMATS = {  # method of a value: name in a result
    "_repr_html_": "html", "_repr_markdown_": "markdown", "_repr_svg_": "svg", "_repr_png_": "png",
    "_repr_jpeg_": "jpeg", "_repr_pdf_": "pdf", "_repr_latex_": "latex", "_repr_json_": "json",
    "_repr_javascript_": "javascript",
}


# The process of a context


class Teller(io.TextIOBase):
    """Sends what is printed as messages."""

    def __init__(self, tell, kind):
        self.tell, self.kind = tell, kind

    def writable(self):
        return True

    def write(self, text):
        if text:
            self.tell({"type": self.kind, "text": text, "timestamp": time.time_ns() // 1000})
        return len(text)


def shown(value):
    """What a value looks like, in each format that it has."""
    out = {"text": repr(value)}
    for method, name in FORMATS.items():
        show = getattr(value, method, None)
        if isinstance(value, type) or not callable(show):
            continue
        try:
            data = show()
        except Exception:
            continue
        if isinstance(data, tuple):
            data = data[0]
        if isinstance(data, bytes):
            data = base64.b64encode(data).decode()
        if data is not None:
            out[name] = data
    return out


def shell(command):
    """Runs a line that begins with an exclamation mark."""
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    print(done.stdout, end="")


def plain(code):
    """Replaces the lines of notebooks that are no Python."""
    code = re.sub(r"(?m)^(\s*)%pip\s+(.*)$", lambda m: f"{m[1]}__shell__({sys.executable + ' -m pip ' + m[2]!r})", code)
    return re.sub(r"(?m)^(\s*)!(.*)$", lambda m: f"{m[1]}__shell__({m[2]!r})", code)


class Kernel:
    def __init__(self, tell):
        self.tell, self.count, self.loop = tell, 0, asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.names = {"__name__": "__main__", "__builtins__": __builtins__, "__shell__": shell, "display": self.display}

    def display(self, *values):
        for v in values:
            self.tell({"type": "result", "is_main_result": False, **shown(v)})

    def run(self, code):
        """Runs statements; returns the value of an expression at the end."""
        try:
            tree = ast.parse(code)
        except SyntaxError:
            tree = ast.parse(plain(code))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        if code.rstrip().endswith(";") and last is not None:
            tree.body.append(last)
            last = None
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.evaluate(compile(tree, "<cell>", "exec", flags=flags))
        if last is not None:
            return self.evaluate(compile(ast.Expression(last.value), "<cell>", "eval", flags=flags))

    def evaluate(self, code):
        value = eval(code, self.names)
        if code.co_flags & inspect.CO_COROUTINE:
            value = self.loop.run_until_complete(value)
        return value

    def figures(self):
        """Shows the open figures of matplotlib."""
        plt = sys.modules.get("matplotlib.pyplot")
        for number in plt.get_fignums() if plt else []:
            figure, data = plt.figure(number), io.BytesIO()
            figure.savefig(data, format="png", bbox_inches="tight")
            self.tell({"type": "result", "is_main_result": False, "text": repr(figure), "png": base64.b64encode(data.getvalue()).decode()})
        if plt:
            plt.close("all")

    def execute(self, code, env):
        self.count += 1
        old = {k: os.environ.get(k) for k in env}
        os.environ.update(env)
        try:
            value = self.run(code)
            if value is not None:
                self.names["_"] = value
                self.tell({"type": "result", "is_main_result": True, **shown(value)})
            self.figures()
        except BaseException as e:  # the code may raise anything
            skip = e.__traceback__
            while skip is not None and skip.tb_frame.f_code.co_filename != "<cell>":
                skip = skip.tb_next
            lines = traceback.format_exception(type(e), e, skip)
            self.tell({"type": "error", "name": type(e).__name__, "value": str(e), "traceback": "".join(lines)})
        finally:
            for k, v in old.items():
                os.environ.pop(k, None) if v is None else os.environ.__setitem__(k, v)
        self.tell({"type": "number_of_executions", "execution_count": self.count})


def kernel(fd, warm):
    out, lock = os.fdopen(fd, "w", encoding="utf-8"), threading.Lock()

    def tell(message):
        with lock:
            out.write(json.dumps(message, default=str) + "\n")
            out.flush()

    os.environ.setdefault("MPLBACKEND", "agg")
    sys.stdout, sys.stderr = Teller(tell, "stdout"), Teller(tell, "stderr")
    asked, k, base = sys.stdin, Kernel(tell), {}
    sys.stdin = open(os.devnull)
    sys.argv = [""]
    if warm:
        for name in ("pandas", "matplotlib.pyplot"):
            try:
                importlib.import_module(name)
            except ImportError:
                pass
        tell({"type": "warm"})
    while True:
        try:
            line = asked.readline()
            if not line:
                return
            work = json.loads(line)
            if work["base"] != base:  # what code has changed itself is kept until the next change
                base = work["base"]
                os.environ.update(base)
            k.execute(work["code"], work["env"])
        except KeyboardInterrupt:
            continue
        finally:
            tell({"type": "end_of_execution"})


# The server


class Context:
    def __init__(self, cwd, *more):
        self.id, self.cwd, self.language = str(uuid.uuid4()), cwd, "python"
        self.lock = threading.Lock()
        self.begin(*more)

    def begin(self, *more):
        read, write = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--kernel", str(write), *more], pass_fds=[write], cwd=self.cwd,
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        os.close(write)
        self.messages = os.fdopen(read, encoding="utf-8")

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def described(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    def execute(self, code, env, send, client):
        """Runs code. If the client leaves, the code is interrupted."""
        with self.lock:
            over = threading.Event()
            threading.Thread(target=self.interrupt, args=(client, over), daemon=True).start()
            try:
                self.converse(code, env, send)
            finally:
                over.set()

    def interrupt(self, client, over):
        """Interrupts the code when the client has closed its connection."""
        while not over.is_set():
            if select.select([client], [], [], 0.2)[0]:
                try:
                    if client.recv(1, socket.MSG_PEEK):
                        return  # the next request
                except OSError:
                    pass
                if not over.is_set():
                    self.process.send_signal(signal.SIGINT)
                return

    def converse(self, code, env, send):
        """Hands code to the process, and its messages to the client, until it is done."""
        here = True
        self.process.stdin.write(json.dumps({"code": code, "env": env, "base": dict(environment)}) + "\n")
        self.process.stdin.flush()
        for line in self.messages:
            try:
                if here:
                    send(line)
            except OSError:
                here = False
                self.process.send_signal(signal.SIGINT)
            if '"end_of_execution"' in line and json.loads(line)["type"] == "end_of_execution":
                return
        self.process.wait()
        self.begin()
        send(json.dumps({"type": "error", "name": "KernelDied", "value": "the process of the context has ended", "traceback": ""}) + "\n")
        send('{"type": "end_of_execution"}\n')


contexts, contexts_lock = {}, threading.Lock()
environment = {}  # of all code, beside what the server was started with


def default():
    with contexts_lock:
        if "default" not in contexts:
            contexts["default"] = Context(os.getcwd())
        return contexts["default"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, value=None):
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                if len(data) + size > MAX_BODY:
                    raise ValueError("the body is larger than 16 MiB")
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            size = int(self.headers.get("Content-Length") or 0)
            if size > MAX_BODY:
                raise ValueError("the body is larger than 16 MiB")
            data = self.rfile.read(size)
        return json.loads(data or b"{}")

    def find(self):
        parts = self.path.strip("/").split("/")
        return contexts.get(parts[1]) if len(parts) > 1 else None

    def do_GET(self):
        if self.path == "/health":
            return self.answer(200, "OK")
        if self.path == "/contexts":
            return self.answer(200, [c.described() for c in list(contexts.values())])
        self.answer(404, {"message": "no such route"})

    def do_DELETE(self):
        c = self.find()
        if c is None:
            return self.answer(404, {"message": "no such context"})
        with contexts_lock:
            for key in [k for k, v in contexts.items() if v is c]:
                del contexts[key]
        c.end()
        self.answer(204)

    def do_POST(self):
        try:
            asked = self.body()
        except ValueError as e:
            self.close_connection = True
            return self.answer(400, {"message": f"the body is malformed: {e}"})
        if self.path == "/execute":
            return self.execute(asked)
        if self.path == "/environment":
            environment.update({k: str(v) for k, v in asked.items()})
            return self.answer(204)
        if (asked.get("language") or "python") not in ("python", "python3"):
            return self.answer(400, {"message": "only Python is supported"})
        if self.path == "/contexts":
            try:
                c = Context(asked.get("cwd") or os.getcwd())
            except OSError as e:
                return self.answer(400, {"message": str(e)})
            with contexts_lock:
                contexts[c.id] = c
            return self.answer(200, c.described())
        c = self.find()
        if c is None or not self.path.endswith("/restart"):
            return self.answer(404, {"message": "no such context"})
        c.end()
        with c.lock:
            if c.process.poll() is not None:
                c.begin()
        self.answer(200, None)

    def execute(self, asked):
        if (asked.get("language") or "python") not in ("python", "python3"):
            return self.answer(400, {"message": "only Python is supported"})
        c = contexts.get(asked["context_id"]) if asked.get("context_id") else default()
        if c is None:
            return self.answer(404, {"message": "no such context"})
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

        def send(line):
            data = line.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        try:
            c.execute(asked.get("code") or "", {k: str(v) for k, v in (asked.get("env_vars") or {}).items()}, send, self.connection)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True


if __name__ == "__main__":
    if sys.argv[1] == "--kernel":
        kernel(int(sys.argv[2]), "--warm" in sys.argv)
    else:
        if "--warm" in sys.argv:
            contexts["default"] = Context(os.getcwd(), "--warm")
            while (line := contexts["default"].messages.readline()) and json.loads(line)["type"] != "warm":
                pass  # what the imports print belongs to no code
        ThreadingHTTPServer.daemon_threads = True
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
