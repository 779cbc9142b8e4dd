// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

import type { Warren } from "./client.js";
import { CorruptError, fromBody } from "./errors.js";
import type * as types from "./types.js";
import { linesOf } from "./wire.js";

/** The header that names the Linux user of a request. */
export const userHeader = "X-Freestyle-Vm-Linux-User-Id";

/** The files of a machine. Paths that are not absolute begin in the user's home. */
export class Files {
  constructor(
    private readonly client: Warren,
    private readonly machine: string,
  ) {}

  /** The bytes of a file. */
  async read(path: string): Promise<Uint8Array> {
    const answer = await this.client.send("GET", `${this.machine}/raw/${encodeURIComponent(path)}`);
    let data: Uint8Array;
    try {
      data = new Uint8Array(await answer.arrayBuffer());
    } catch (cause) {
      throw this.client.broken(cause);
    }
    const length = answer.headers.get("warren-length");
    if (length !== null && Number(length) !== data.length) throw new CorruptError(`${path}: ${data.length} of ${length} bytes have come`);
    return data;
  }

  /** The text of a file. */
  async readText(path: string): Promise<string> {
    return new TextDecoder("utf-8", { fatal: true }).decode(await this.read(path));
  }

  /** Writes a file, completely or not at all. Directories above it are made. */
  async write(path: string, data: string | Uint8Array | Blob, options: { mode?: number; user?: string } = {}): Promise<void> {
    await this.client.send("PUT", `${this.machine}/raw/${encodeURIComponent(path)}`, {
      query: { parents: true, mode: options.mode?.toString(8) },
      content: data as BodyInit,
      headers: { "Content-Type": "application/octet-stream", ...(options.user ? { [userHeader]: options.user } : {}) },
    });
  }

  /** The entries of a directory. */
  async list(path: string): Promise<types.FileInfo[]> {
    const found: types.FileList = await this.client.json("GET", this.machine + "/fs/list", { query: { path } });
    return found.files;
  }

  /** One entry. A link is not followed. */
  stat(path: string): Promise<types.FileInfo> {
    return this.client.json("GET", this.machine + "/fs/stat", { query: { path } });
  }

  /** Makes a directory, and those above it. */
  mkdir(path: string): Promise<void> {
    return this.#change("mkdir", { path, parents: true });
  }

  /** Gives an entry another name. */
  rename(from: string, to: string): Promise<void> {
    return this.#change("rename", { from, to });
  }

  /** Removes a file or a directory, with `recursive` with all that is in it. */
  remove(path: string, options: { recursive?: boolean } = {}): Promise<void> {
    return this.#change("remove", { path, ...options });
  }

  /** Changes below a directory, as they happen. */
  async *watch(path: string): AsyncGenerator<types.FileEvent> {
    const answer = await this.client.send("GET", this.machine + "/fs/watch", { query: { path, recursive: true }, stream: true });
    for await (const line of linesOf(answer.body!)) {
      const event = JSON.parse(line);
      if ("code" in event) throw fromBody(200, event);
      yield event;
    }
  }

  async #change(verb: string, body: types.FileOp): Promise<void> {
    await this.client.json("POST", `${this.machine}/fs/${verb}`, { json: body });
  }
}
