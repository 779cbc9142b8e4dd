// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

import { addressOf, env, inNode, ownKey, queryText, segment, version, waitBefore } from "./config.js";
import { InvalidError, NotFoundError, TimedOutError, UnavailableError, WarrenError, fromText } from "./errors.js";
import { Machine } from "./machine.js";
import { type Operations, operations } from "./operations.js";
import type { WebSocketLike } from "./socket.js";
import type * as types from "./types.js";

/** How to reach a server. */
export interface WarrenOptions {
  /** Default: WARREN_API_URL, else http://127.0.0.1:8787. */
  url?: string;
  /** Default: WARREN_API_KEY, else, for a server on this host, the key of its admin if this user may read it. */
  apiKey?: string;
  /** How long a request may take, in milliseconds; streams have no limit. Default: 300,000. */
  timeoutMs?: number;
  /** How often a request that is safe to repeat is sent again. Default: 4. */
  retries?: number;
  /** Default: the platform's. */
  fetch?: typeof fetch;
  /** Default: the platform's, if it has one. */
  WebSocket?: new (url: string, protocols: string[]) => WebSocketLike;
}

/** What a new machine is. All members may be absent. */
export interface MachineOptions {
  /** An image, or a snapshot's id or name. */
  image?: string;
  name?: string;
  vcpus?: number;
  memoryMib?: number;
  diskGib?: number;
  /** What it may reach, such as "packages,api.example.com:443". */
  network?: string | types.NetworkRequest;
  labels?: Record<string, string>;
  secrets?: string[];
  profile?: string;
  idleTimeoutSeconds?: number;
  /** It is deleted after this time, in any state. */
  ttlSeconds?: number;
  workdir?: string;
  /** Refuse a name that another machine has. */
  uniqueName?: boolean;
  /** Other members of the request. */
  body?: types.CreateVM;
}

export interface Sent {
  query?: object | undefined;
  json?: unknown;
  content?: BodyInit | undefined;
  headers?: Record<string, string>;
  stream?: boolean;
  signal?: AbortSignal | undefined;
}

/** A client of one server with one key. */
export class Warren {
  readonly url: string;
  readonly options: WarrenOptions;
  #key: Promise<string> | undefined;

  constructor(options: WarrenOptions = {}) {
    this.options = options;
    this.url = addressOf(options.url);
  }

  /** Makes a machine and starts it. Declare it with `await using`, and it is deleted at the end
   *  of its block. The request is never sent twice. */
  async machine(options: MachineOptions = {}): Promise<Machine> {
    const o = options;
    const body: types.CreateVM = {
      ...o.body,
      ...given({
        image: o.image, name: o.name, vcpuCount: o.vcpus, memSizeMib: o.memoryMib, rootfsSizeGb: o.diskGib, network: o.network,
        labels: o.labels, secrets: o.secrets, profile: o.profile, idleTimeoutSeconds: o.idleTimeoutSeconds, ttlSeconds: o.ttlSeconds,
        workdir: o.workdir, uniqueName: o.uniqueName,
      }),
    };
    const made = await this.call("createVM", { body });
    return new Machine(this, made.id, made.vm.name ?? "", true);
  }

  /** The machine with a name or an id. */
  async get(ref: string): Promise<Machine> {
    const found = await this.call("getVM", { path: { vm: ref } });
    return new Machine(this, found.id, found.name ?? "");
  }

  /** The machines of this account, the oldest first. A label is NAME=VALUE or NAME. */
  async list(select: { state?: types.State; label?: string | string[]; search?: string } = {}): Promise<Machine[]> {
    const query = { vmState: select.state, label: select.label, search: select.search };
    const found = (await this.json("GET", "/v1/vms", { query })) as types.VMList;
    return found.vms.map((v) => new Machine(this, v.id, v.name ?? ""));
  }

  /** The images of this server. */
  images(): Promise<types.ImageList> {
    return this.call("listImages", {});
  }

  /** The snapshots of the account and of the images. */
  snapshots(): Promise<types.SnapshotList> {
    return this.call("listSnapshots", {});
  }

  /** Deletes a snapshot. Machines made from it stay. */
  async deleteSnapshot(ref: string): Promise<void> {
    await this.call("deleteSnapshot", { path: { snapshot: ref } });
  }

  /** Calls an operation of openapi.json by its id, for what this class has no method for:
   *  `call("createBucket", { body: { name: "reports" } })`. */
  async call<K extends keyof Operations>(
    operation: K,
    input: { path?: Operations[K]["path"]; query?: Operations[K]["query"]; body?: Operations[K]["body"] },
  ): Promise<Operations[K]["answer"]> {
    const [method, pattern] = operations[operation];
    const parts = (input.path ?? {}) as Record<string, string | number>;
    const path = pattern.replace(/\{(\w+)\}/g, (_, name: string) => {
      if (parts[name] === undefined) throw new InvalidError(`${operation} needs the parts of its path: ${pattern}`);
      return segment(String(parts[name]));
    });
    const raw = input.body instanceof Blob || input.body instanceof ArrayBuffer || ArrayBuffer.isView(input.body) || typeof input.body === "string";
    const sent = raw ? { content: input.body as BodyInit } : { json: input.body };
    return this.json(method, path, { query: input.query, ...sent });
  }

  /** The JSON of an answer, or its text if it is not JSON. */
  async json(method: string, path: string, sent: Sent = {}): Promise<any> {
    const answer = await this.send(method, path, sent);
    const isJson = answer.headers.get("content-type")?.startsWith("application/json");
    return this.#read(() => (isJson ? answer.json() : answer.text()));
  }

  /** The bytes of an answer. */
  async bytes(method: string, path: string, sent: Sent = {}): Promise<Uint8Array> {
    const answer = await this.send(method, path, sent);
    return new Uint8Array(await this.#read(() => answer.arrayBuffer()));
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (cause) {
      throw this.broken(cause);
    }
  }

  /** Sends a request, again if that is safe and helps. */
  async send(method: string, path: string, sent: Sent = {}): Promise<Response> {
    const { query = {}, json, content, stream = false } = sent;
    const headers: Record<string, string> = { ...(await this.headers()), ...sent.headers };
    if (json !== undefined) headers["Content-Type"] = "application/json";
    const body = json !== undefined ? JSON.stringify(json) : (content ?? null);
    const ask = this.options.fetch ?? fetch;
    for (let attempt = 0; ; attempt++) {
      const limits = [sent.signal, stream ? undefined : AbortSignal.timeout(this.options.timeoutMs ?? 300_000)].filter((s) => s !== undefined);
      let failed: WarrenError;
      let after: string | null = null;
      try {
        const answer = await ask(this.url + path + queryText(query), {
          method, headers, body, redirect: "error", ...(limits.length > 0 ? { signal: AbortSignal.any(limits) } : {}),
        });
        if (answer.ok) return answer;
        after = answer.headers.get("retry-after");
        failed = fromText(answer.status, await answer.text());
      } catch (cause) {
        if (sent.signal?.aborted) throw sent.signal.reason;
        failed = this.broken(cause);
      }
      if (attempt > 0 && method === "DELETE" && failed instanceof NotFoundError) {
        return Response.json({}); // an earlier attempt has deleted it
      }
      const pause = waitBefore(attempt, method, failed, this.options.retries ?? 4, after);
      if (pause === undefined) throw failed;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /** The key that this client sends. */
  key(): Promise<string> {
    this.#key ??= (async () => (this.options.apiKey || env("WARREN_API_KEY") || (await ownKey(this.url))).trim())();
    return this.#key;
  }

  /** The headers of every request. */
  async headers(): Promise<Record<string, string>> {
    const key = await this.key();
    return { ...(inNode ? { "User-Agent": `warren-typescript/${version}` } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  }

  /** The error for a request without a whole answer. */
  broken(cause: unknown): WarrenError {
    if (cause instanceof WarrenError) return cause;
    const reason = cause instanceof Error ? ((cause.cause as Error | undefined)?.message ?? cause.message) : String(cause);
    if (cause instanceof DOMException && cause.name === "TimeoutError") {
      return new TimedOutError(`${this.url}: no answer in time`, { hint: "give a longer timeoutMs", cause });
    }
    return new UnavailableError(`${this.url}: no server answers, or the connection broke: ${reason}`, { hint: "start the server: `warren serve`", cause });
  }
}

/** The members that are not undefined. */
export function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, v]) => v !== undefined)) as { [K in keyof T]?: Exclude<T[K], undefined> };
}
