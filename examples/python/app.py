"""Notes over HTTP, kept in SQLite. Needs nothing but Python."""

import json
import os
import sqlite3
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def database(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    return db


def add(db, text):
    if not text.strip():
        raise ValueError("an empty note")
    with db:
        return db.execute("INSERT INTO notes (text) VALUES (?)", (text,)).lastrowid


def notes(db):
    return [{"id": n, "text": text} for n, text in db.execute("SELECT id, text FROM notes ORDER BY id")]


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, notes(database(os.environ.get("NOTES_DB", "notes.db"))))

    def do_POST(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        try:
            self.answer(201, {"id": add(database(os.environ.get("NOTES_DB", "notes.db")), text)})
        except ValueError as e:
            self.answer(400, {"error": str(e)})


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8000), Handler).serve_forever()
