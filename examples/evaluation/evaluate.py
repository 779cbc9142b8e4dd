# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluates several solutions of one task, each in a fork of one prepared machine, and prints a table.

The machine is prepared once: its data, and a server that the solutions must talk to. Each solution gets the
same running state, and none sees what another one changed.
"""

import concurrent.futures
import time

import warren

SERVER = """
import http.server, json
stock = {"apples": 3}

class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200)
    def do_POST(self):
        if stock["apples"] == 0:
            return self.answer(409)
        stock["apples"] -= 1
        self.answer(200)
    def answer(self, status):
        body = json.dumps(stock).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("", 8000), Shop).serve_forever()
"""

# The task: buy every apple. A solution is a shell command.
SOLUTIONS = {
    "buys one": "curl -sf -X POST localhost:8000",
    "buys until it is refused": "while curl -sf -o /dev/null -X POST localhost:8000; do :; done",
    "asks only": "curl -sf localhost:8000",
}


def evaluate(copy: warren.Machine, solution: str) -> tuple[bool, float]:
    """Runs a solution in its copy, and checks the state that it left there."""
    began = time.monotonic()
    copy.run(solution, timeout=60)
    took = time.monotonic() - began
    left = copy.run("curl -s localhost:8000").stdout
    return left == '{"apples": 0}', took


def main() -> None:
    with warren.machine() as prepared:
        prepared.files.write("/srv/shop.py", SERVER)
        prepared.start("exec python3 /srv/shop.py")
        prepared.wait_port(8000)
        with prepared.fork(len(SOLUTIONS)) as copies, concurrent.futures.ThreadPoolExecutor() as pool:
            for name, (solved, took) in zip(SOLUTIONS, pool.map(evaluate, copies, SOLUTIONS.values())):
                print(f"{name:26} {'solved' if solved else 'failed'}  {took:6.1f} s")


main()
