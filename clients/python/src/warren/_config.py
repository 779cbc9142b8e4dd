# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Where the server is, which key to send, and which requests to repeat."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import random
from urllib.parse import quote, urlsplit

import httpx

from ._errors import BusyError, TimedOutError, UnavailableError, WarrenError

DEFAULT_URL = "http://127.0.0.1:8787"
VERSION = "0.1.0"
# The methods that may be sent twice: the second time changes nothing more. A POST makes
# something, or runs a command, so it is sent once.
REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE"})


def settings(url: str | None, api_key: str | None) -> tuple[str, str]:
    """The server's address and the key for it, from arguments or the environment."""
    url = (url or os.environ.get("WARREN_API_URL") or DEFAULT_URL).rstrip("/")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise ValueError(f"{url!r} is not the address of a server: use a form such as {DEFAULT_URL}")
    key = (api_key or os.environ.get("WARREN_API_KEY") or "").strip()
    if not key and is_loopback(url):  # the admin's key is sent only to a server on this host
        try:
            key = (data_dir() / "admin.key").read_text().strip()
        except OSError:
            pass  # the server's refusal says what is missing
    return url, key


def data_dir() -> pathlib.Path:
    """The data directory of this host's server."""
    if named := os.environ.get("WARREN_DATA"):
        return pathlib.Path(named)
    if hasattr(os, "getuid") and os.getuid() == 0:
        return pathlib.Path("/var/lib/warren")
    share = os.environ.get("XDG_DATA_HOME", "")
    return (pathlib.Path(share) if share.startswith("/") else pathlib.Path.home() / ".local" / "share") / "warren"


def is_loopback(url: str) -> bool:
    """Whether a server of that address is on this host."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def headers(key: str) -> dict[str, str]:
    """The headers of every request."""
    h = {"User-Agent": f"warren-python/{VERSION}"}
    if key:
        h["Authorization"] = f"Bearer {key}"
    return h


def segment(value: str) -> str:
    """One segment of a path."""
    if value in ("", ".", ".."):
        raise ValueError(f"{value!r} is no name or id")
    return quote(value, safe="")


def broken(err: httpx.HTTPError, url: str) -> WarrenError:
    """The error for a request without an answer."""
    if isinstance(err, httpx.ConnectError | httpx.ConnectTimeout):
        return UnavailableError(f"{url}: no server answers: {err}", hint="start the server: `warren serve`")
    if isinstance(err, httpx.TimeoutException):
        return TimedOutError(f"{url}: no answer in time: {err}", hint="give a longer timeout")
    return UnavailableError(f"{url}: the connection to the server broke: {err}", hint="check that `warren serve` still runs")


def wait_before(attempt: int, method: str, err: WarrenError, retries: int, retry_after: str | None = None) -> float | None:
    """Seconds until a request is sent again; None: it is not."""
    if method not in REPEATABLE or attempt >= retries or not isinstance(err, UnavailableError | BusyError):
        return None
    if 0 < err.status < 500 and not isinstance(err, BusyError):
        return None  # not a Warren server
    pause: float = min(8.0, 0.25 * 2.0**attempt) * (0.5 + random.random() / 2)
    try:
        return max(pause, min(30.0, float(retry_after or 0)))
    except ValueError:
        return pause
