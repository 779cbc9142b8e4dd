# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The client of a server."""

from __future__ import annotations

import builtins
import json as jsonlib
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import Any, cast

import httpx

from .. import _config, types
from .._errors import NotFoundError, WarrenError, from_answer
from .._operations import OPERATIONS
from .._wire import without_none
from . import _io
from .machine import AsyncMachine


class AsyncWarren:
    """A client of one server with one key.

    `url` and `api_key` default to WARREN_API_URL and WARREN_API_KEY. For a server on this
    host, the key of its admin is used if there is no other and this user may read it.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 300.0,
        retries: int = 4,
        transport: _io.AsyncHTTPTransport | None = None,
    ) -> None:
        self.url, self._key = _config.settings(url, api_key)
        self._retries = retries
        self._proxied = not _config.is_loopback(self.url)
        self._http = _io.AsyncHTTPClient(
            base_url=self.url,
            headers=_config.headers(self._key),
            timeout=httpx.Timeout(timeout, connect=10.0),
            transport=transport,
            trust_env=self._proxied,
        )

    async def aclose(self) -> None:
        """Closes the connections. Machines stay."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncWarren:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def machine(self, image: str | None = None, **options: Any) -> _Creating:
        """Makes a machine and starts it.

        Use it with `async with`, which deletes the machine at the end, or await it, which
        leaves that to you. `image` is an image, or a snapshot's id or name. The options are
        those of create().
        """
        return _Creating(self, image, options)

    async def create(
        self,
        image: str | None = None,
        *,
        name: str | None = None,
        vcpus: int | None = None,
        memory_mib: int | None = None,
        disk_gib: int | None = None,
        network: str | types.NetworkRequest | None = None,
        labels: Mapping[str, str] | None = None,
        secrets: Sequence[str] | None = None,
        profile: str | None = None,
        idle_timeout: int | None = None,
        ttl: int | None = None,
        workdir: str | None = None,
        unique_name: bool | None = None,
        body: types.CreateVM | None = None,
    ) -> AsyncMachine:
        """Makes a machine and starts it; returns when commands can run in it.

        Times are in seconds. `network` says what it may reach, such as
        "packages,api.example.com:443". `body` has other members of the request.
        The request is never sent twice.
        """
        spec = without_none(
            name=name, image=image, vcpuCount=vcpus, memSizeMib=memory_mib, rootfsSizeGb=disk_gib, network=network,
            labels=labels, secrets=secrets, profile=profile, idleTimeoutSeconds=idle_timeout, ttlSeconds=ttl,
            workdir=workdir, uniqueName=unique_name,
        )  # fmt: skip
        made = await self._json("POST", "/v1/vms", json={**(body or {}), **spec})
        return AsyncMachine(self, made["id"], made["vm"].get("name", ""), delete_on_exit=True)

    async def get(self, ref: str) -> AsyncMachine:
        """The machine with a name or an id."""
        found = await self._json("GET", f"/v1/vms/{_config.segment(ref)}")
        return AsyncMachine(self, found["id"], found.get("name", ""))

    async def list(
        self, *, state: str | None = None, label: str | Sequence[str] | None = None, search: str | None = None
    ) -> builtins.list[AsyncMachine]:
        """The machines of this account, the oldest first. `label` is NAME=VALUE or NAME."""
        labels = [label] if isinstance(label, str) else label
        found = await self._json("GET", "/v1/vms", query=without_none(vmState=state, label=labels, search=search))
        return [AsyncMachine(self, v["id"], v.get("name", "")) for v in found["vms"]]

    async def images(self) -> types.ImageList:
        """The images of this server."""
        return cast(types.ImageList, await self._json("GET", "/v1/images"))

    async def snapshots(self) -> types.SnapshotList:
        """The snapshots of the account and of the images."""
        return cast(types.SnapshotList, await self._json("GET", "/v1/vms/snapshots"))

    async def delete_snapshot(self, ref: str) -> None:
        """Deletes a snapshot. Machines made from it stay."""
        await self._json("DELETE", f"/v1/vms/snapshots/{_config.segment(ref)}")

    async def call(
        self,
        operation: str,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
    ) -> Any:
        """Calls an operation of openapi.json by its id, and returns its answer.

        For what this class has no method for: `call("createBucket", body={"name": "reports"})`.
        """
        method, pattern = OPERATIONS[operation]
        for name, value in (path or {}).items():
            pattern = pattern.replace("{" + name + "}", _config.segment(value))
        if "{" in pattern:
            raise ValueError(f"{operation} needs the parts of its path: {pattern}")
        return await self._json(method, pattern, query=query, json=body)

    async def _json(self, method: str, path: str, *, query: Mapping[str, Any] | None = None, json: Any = None) -> Any:
        answer = await self._send(method, path, query=query, json=json)
        if not answer.headers.get("content-type", "").startswith("application/json"):
            return answer.text
        return answer.json()

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
    ) -> httpx.Response:
        """Sends a request, again if that is safe and helps. A streamed answer must be closed."""
        params = {k: str(v).lower() if isinstance(v, bool) else v for k, v in (query or {}).items()}
        data = jsonlib.dumps(json).encode() if json is not None else content
        sent = dict(headers or {})
        if json is not None:
            sent["Content-Type"] = "application/json"
        attempt = 0
        while True:
            request = self._http.build_request(method, path, params=params, content=data, headers=sent)
            if stream:
                request.extensions["timeout"] = {**request.extensions["timeout"], "read": None}
            after = None
            try:
                answer = await self._http.send(request, stream=stream)
                if answer.is_success:
                    return answer
                after = answer.headers.get("retry-after")
                failed = from_answer(answer.status_code, await answer.aread())
                await answer.aclose()
            except httpx.HTTPError as err:
                failed = _config.broken(err, self.url)
                failed.__cause__ = err
            if attempt > 0 and method == "DELETE" and isinstance(failed, NotFoundError):
                return httpx.Response(200, json={}, request=request)  # an earlier attempt has deleted it
            pause = _config.wait_before(attempt, method, failed, self._retries, after)
            if pause is None:
                raise failed
            await _io.sleep(pause)
            attempt += 1

    async def _lines(self, answer: httpx.Response) -> AsyncIterator[str]:
        """The lines of a streamed answer."""
        try:
            async for line in answer.aiter_lines():
                yield line
        except httpx.HTTPError as err:
            raise _config.broken(err, self.url) from err
        finally:
            await answer.aclose()


# <async
class _Creating:
    """A machine that is being made: await it, or use it with `async with`."""

    def __init__(self, client: AsyncWarren, image: str | None, options: dict[str, Any]) -> None:
        self._client, self._image, self._options = client, image, options
        self._made: AsyncMachine | None = None

    def __await__(self) -> Generator[Any, None, AsyncMachine]:
        return self._client.create(self._image, **self._options).__await__()

    async def __aenter__(self) -> AsyncMachine:
        self._made = await self
        return self._made

    async def __aexit__(self, *exc: object) -> None:
        if self._made is not None:
            await self._made.__aexit__(*exc)


# async>
