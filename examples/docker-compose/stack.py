"""A web server, a database and a worker, the three services of compose.yaml.

The worker opens a transaction, inserts a row and waits. SIGUSR1 makes it commit, SIGUSR2 roll
back; then it opens the next one. GET / answers with the rows that are committed.
"""

import http.server
import json
import signal
import socket
import socketserver
import sqlite3
import sys
import time

FILE = "/data/stack.db"
ADDRESS = ("database", 5000)


class Session(socketserver.StreamRequestHandler):
    """One connection to the database: a line of SQL in, a line of JSON out."""

    def handle(self):
        db = sqlite3.connect(FILE, isolation_level=None, timeout=30)
        for line in self.rfile:
            try:
                answer = db.execute(line.decode()).fetchall()
            except sqlite3.Error as e:
                answer = {"error": str(e)}
            self.wfile.write(json.dumps(answer).encode() + b"\n")
        db.close()  # what was not committed is rolled back


def database():
    db = sqlite3.connect(FILE)
    db.execute("PRAGMA journal_mode=WAL")  # readers need not wait for the worker
    db.execute("CREATE TABLE IF NOT EXISTS work (what TEXT)")
    db.close()
    socketserver.ThreadingTCPServer.daemon_threads = True
    with socketserver.ThreadingTCPServer(("", ADDRESS[1]), Session) as server:
        print("database: ready", flush=True)
        server.serve_forever()


def connect():
    """Return a function that sends one line of SQL and returns the answer."""
    while True:
        try:
            f = socket.create_connection(ADDRESS).makefile("rw")
            break
        except OSError:
            time.sleep(0.2)

    def ask(sql):
        f.write(sql + "\n")
        f.flush()
        answer = json.loads(f.readline())
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])
        return answer

    return ask


class Page(http.server.BaseHTTPRequestHandler):
    ask = None

    def do_GET(self):
        body = json.dumps([row[0] for row in Page.ask("SELECT what FROM work ORDER BY rowid")]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def web():
    Page.ask = staticmethod(connect())
    print("web: ready", flush=True)
    http.server.HTTPServer(("", 8000), Page).serve_forever()


def worker():
    signals = [signal.SIGUSR1, signal.SIGUSR2]
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    ask = connect()
    n = 0
    while True:
        n += 1
        ask("BEGIN IMMEDIATE")
        ask(f"INSERT INTO work VALUES ('job {n}')")
        print(f"worker: job {n} waits in an open transaction", flush=True)
        end = "COMMIT" if signal.sigwait(signals) == signal.SIGUSR1 else "ROLLBACK"
        ask(end)
        print(f"worker: job {n}: {end}", flush=True)


if __name__ == "__main__":
    {"web": web, "database": database, "worker": worker}[sys.argv[1]]()
