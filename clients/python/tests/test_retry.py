# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests are sent again, and what keeps a stream whole. Needs no server."""

import base64
import json
import sys
import unittest
from collections.abc import Callable

import httpx

import warren

Answer = Callable[[httpx.Request], httpx.Response]


def unavailable(_: httpx.Request) -> httpx.Response:
    return httpx.Response(503, json={"code": "SERVICE_UNAVAILABLE", "kind": "unavailable", "message": "starting", "hint": "wait"})


def broken(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("the connection broke", request=request)


def gone(_: httpx.Request) -> httpx.Response:
    return httpx.Response(404, json={"code": "VM_NOT_FOUND", "kind": "not-found", "message": "no"})


def fake(*answers: Answer) -> tuple[warren.Warren, list[str]]:
    """A client whose requests get these answers, one after the other."""
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(f"{request.method} {request.url.path}")
        return answers[min(len(sent), len(answers)) - 1](request)

    return warren.Warren("http://127.0.0.1:1", "k", retries=3, transport=httpx.MockTransport(answer)), sent


class Retries(unittest.TestCase):
    def setUp(self) -> None:
        self.paused: list[float] = []
        module = sys.modules["warren._sync.client"]._io
        was, module.sleep = module.sleep, self.paused.append
        self.addCleanup(setattr, module, "sleep", was)

    def test_a_create_is_sent_once(self) -> None:
        for answer in (unavailable, broken):
            client, sent = fake(answer)
            with self.assertRaises(warren.UnavailableError):
                client.machine()
            self.assertEqual(sent, ["POST /v1/vms"], "a create whose answer is lost was sent again")

    def test_a_read_is_sent_again(self) -> None:
        client, sent = fake(unavailable, broken, lambda _: httpx.Response(200, json={"vms": []}))
        self.assertEqual(client.list(), [], "the list is not the last answer")
        self.assertEqual(len(sent), 3, "the read was not sent three times")
        self.assertLess(self.paused[0], self.paused[1] * 2, "the pauses do not grow")

    def test_a_read_is_not_sent_for_ever(self) -> None:
        client, sent = fake(unavailable)
        with self.assertRaises(warren.UnavailableError) as caught:
            client.list()
        self.assertEqual(len(sent), 4, "three retries are not four requests")
        self.assertEqual((caught.exception.status, caught.exception.hint), (503, "wait"), "the error lacks what the answer said")

    def test_a_delete_that_has_happened_is_a_success(self) -> None:
        client, sent = fake(broken, gone)
        client.delete_snapshot("sc-1")
        self.assertEqual(len(sent), 2, "the delete was not sent twice")
        client, _ = fake(gone)
        with self.assertRaises(warren.NotFoundError):
            client.delete_snapshot("sc-1")

    def output(self, *messages: dict[str, object]) -> warren.Result:
        lines = "\n\n".join(json.dumps(m) for m in messages)
        client, _ = fake(lambda _: httpx.Response(200, json={"id": "a", "vm": {}}), lambda _: httpx.Response(200, text=lines))
        return client.machine().run("true")

    def test_output_that_ends_early_is_an_error(self) -> None:
        with self.assertRaises(warren.GuestError):
            self.output({"type": "started", "process": {"id": "p1"}})

    def test_a_character_that_is_cut_in_two_is_whole(self) -> None:
        halves = [base64.b64encode(part).decode() for part in ("✓".encode()[:2], "✓".encode()[2:])]
        made = self.output(*({"type": "stdout", "data": h} for h in halves), {"type": "exit", "status": {"code": 0}})
        self.assertEqual(made.stdout, "✓", "the result has another character")

    def test_another_server_says_what_to_check(self) -> None:
        client, _ = fake(lambda _: httpx.Response(404, text="<html>"))
        with self.assertRaisesRegex(warren.UnavailableError, "not a Warren server"):
            client.images()


if __name__ == "__main__":
    unittest.main()
