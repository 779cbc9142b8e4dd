// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

import { inNode, nodeModule } from "./config.js";
import { UnavailableError, type WarrenError, fromText } from "./errors.js";

/** What the client needs of a WebSocket: a part of the platform's. */
export interface WebSocketLike {
  binaryType: string;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(data: any): void;
  close(code?: number): void;
}

export type WebSocketClass = new (url: string, protocols: string[]) => WebSocketLike;

/** A WebSocket whose messages are read one by one. */
export class Channel {
  readonly #messages: (string | Uint8Array)[] = [];
  #wake: (() => void) | undefined;
  #closed: { reason: string } | undefined;

  private constructor(private readonly socket: WebSocketLike) {}

  /** Opens a WebSocket. A browser has no headers for it, so the key travels as a subprotocol. */
  static async open(url: string, key: string, user: string | undefined, own: WebSocketClass | undefined): Promise<Channel> {
    const protocols = ["warren", ...(key ? [`warren.key.${key}`] : []), ...(user ? [`warren.user.${user}`] : [])];
    const Class = own ?? (globalThis.WebSocket as unknown as WebSocketClass | undefined);
    if (!Class && !inNode) throw new UnavailableError("this platform has no WebSocket", { hint: "give one: new Warren({ WebSocket })" });
    const socket = Class ? new Class(url, protocols) : await NodeSocket.dial(url, protocols);
    const channel = new Channel(socket);
    await channel.#opened();
    return channel;
  }

  #opened(): Promise<void> {
    const s = this.socket;
    s.binaryType = "arraybuffer";
    s.onmessage = (event) => {
      this.#messages.push(typeof event.data === "string" ? event.data : new Uint8Array(event.data));
      this.#wake?.();
    };
    return new Promise((resolve, reject) => {
      const failed = (reason: string) => {
        this.#closed ??= { reason };
        this.#wake?.();
        reject(new UnavailableError(`${reason || "the WebSocket was refused"}`));
      };
      s.onopen = () => resolve();
      s.onerror = (event) => (event?.error?.kind ? reject(event.error as WarrenError) : failed(""));
      s.onclose = (event) => failed(String(event?.reason ?? ""));
    });
  }

  send(data: string | Uint8Array): void {
    if (this.#closed) throw new UnavailableError(this.#closed.reason || "the connection ended");
    this.socket.send(data);
  }

  /** The next message; undefined at the end. */
  async next(): Promise<string | Uint8Array | undefined> {
    while (this.#messages.length === 0) {
      if (this.#closed) return undefined;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
    return this.#messages.shift();
  }

  /** Why it ended; "" if it did not say. */
  get reason(): string {
    return this.#closed?.reason ?? "";
  }

  close(): void {
    this.socket.close();
  }
}

const utf8 = new TextDecoder();

/** A WebSocket for versions of Node that have none (20 and older): the client's half of RFC 6455. */
class NodeSocket implements WebSocketLike {
  binaryType = "arraybuffer";
  onopen: WebSocketLike["onopen"] = null;
  onmessage: WebSocketLike["onmessage"] = null;
  onclose: WebSocketLike["onclose"] = null;
  onerror: WebSocketLike["onerror"] = null;
  #wire: any;
  #buffer = new Uint8Array(0);
  #parts: Uint8Array[] = []; // of a message in several frames
  #kind = 0;
  #reason = "";
  #ended = false;

  static readonly most = 1 << 20; // bytes of a message

  static async dial(url: string, protocols: string[]): Promise<NodeSocket> {
    const socket = new NodeSocket();
    const at = new URL(url.replace(/^ws/, "http"));
    const { request } = await nodeModule(at.protocol === "https:" ? "node:https" : "node:http");
    const key = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));
    const sent = request(at, {
      headers: {
        Connection: "Upgrade", Upgrade: "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": protocols.join(", "),
      },
    });
    const fail = (error: unknown) => socket.onerror?.({ error });
    sent.on("error", (err: Error) => fail(new UnavailableError(`no server answers: ${err.message}`, { hint: "start the server: `warren serve`" })));
    sent.on("response", (answer: any) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (part: string) => (text = (text + part).slice(0, NodeSocket.most)));
      answer.on("end", () => fail(fromText(answer.statusCode, text)));
    });
    sent.on("upgrade", (_answer: unknown, wire: any, head: Uint8Array) => socket.#begin(wire, head));
    sent.end();
    return socket;
  }

  #begin(wire: any, head: Uint8Array): void {
    this.#wire = wire;
    wire.on("data", (data: Uint8Array) => this.#take(data));
    wire.on("error", () => this.#end());
    wire.on("close", () => this.#end());
    this.onopen?.({});
    if (head.length > 0) this.#take(head);
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#wire?.destroy();
    this.onclose?.({ reason: this.#reason });
  }

  #take(data: Uint8Array): void {
    const all = new Uint8Array(this.#buffer.length + data.length);
    all.set(this.#buffer);
    all.set(data, this.#buffer.length);
    this.#buffer = all;
    while (!this.#ended && this.#frame()) {}
  }

  /** Handles one frame; false: it has not come as a whole. */
  #frame(): boolean {
    const b = this.#buffer;
    if (b.length < 2) return false;
    const view = new DataView(b.buffer, b.byteOffset, b.length);
    let length = b[1]! & 0x7f;
    let start = 2;
    if (length === 126) {
      if (b.length < 4) return false;
      length = view.getUint16(2);
      start = 4;
    } else if (length === 127) {
      if (b.length < 10) return false;
      length = Number(view.getBigUint64(2));
      start = 10;
    }
    if (length > NodeSocket.most) {
      this.#reason = "a message is too long";
      this.#end();
      return false;
    }
    if (b.length < start + length) return false;
    const payload = b.slice(start, start + length);
    this.#buffer = b.slice(start + length);
    this.#handle(b[0]! & 0x0f, (b[0]! & 0x80) !== 0, payload);
    return true;
  }

  #handle(opcode: number, last: boolean, payload: Uint8Array): void {
    switch (opcode) {
      case 0x8: // close
        this.#reason = utf8.decode(payload.subarray(2));
        this.#write(0x8, payload.subarray(0, 2));
        this.#end();
        return;
      case 0x9: // ping
        this.#write(0xa, payload);
        return;
      case 0xa: // pong
        return;
      case 0x1:
      case 0x2:
        this.#kind = opcode;
        this.#parts = [];
    }
    this.#parts.push(payload);
    const length = this.#parts.reduce((n, p) => n + p.length, 0);
    if (length > NodeSocket.most) {
      this.#reason = "a message is too long";
      this.#end();
      return;
    }
    if (!last) return;
    const whole = new Uint8Array(length);
    let at = 0;
    for (const p of this.#parts) {
      whole.set(p, at);
      at += p.length;
    }
    this.#parts = [];
    this.onmessage?.({ data: this.#kind === 0x1 ? utf8.decode(whole) : whole.buffer });
  }

  #write(opcode: number, payload: Uint8Array): void {
    if (this.#ended) return;
    const n = payload.length;
    const head = n < 126 ? [n] : n < 65536 ? [126, n >> 8, n & 255] : [127, 0, 0, 0, 0, n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255];
    head[0]! |= 0x80; // the client masks what it sends
    const mask = crypto.getRandomValues(new Uint8Array(4));
    const frame = new Uint8Array(1 + head.length + 4 + n);
    frame.set([0x80 | opcode, ...head, ...mask]);
    for (let i = 0; i < n; i++) frame[1 + head.length + 4 + i] = payload[i]! ^ mask[i & 3]!;
    this.#wire.write(frame);
  }

  send(data: string | Uint8Array): void {
    if (typeof data === "string") this.#write(0x1, new TextEncoder().encode(data));
    else this.#write(0x2, data);
  }

  close(): void {
    this.#write(0x8, new Uint8Array([3, 232])); // 1000
    this.#wire?.end();
  }
}
