// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

import type { Warren } from "./client.js";
import { queryText, segment } from "./config.js";
import { UnavailableError } from "./errors.js";
import { Channel } from "./socket.js";
import type * as types from "./types.js";
import { bytesOf } from "./wire.js";

/** How a terminal is opened. */
export interface TerminalOptions {
  /** A command line in place of the login shell. */
  command?: string;
  cols?: number;
  rows?: number;
  cwd?: string;
  env?: Record<string, string>;
  user?: string;
  sessionId?: string;
}

/** A terminal, attached. It stays open in the machine when this attachment ends. */
export class Terminal implements AsyncIterable<Uint8Array> {
  /** Of its program, once that has ended. */
  exitCode: number | undefined;

  private constructor(
    private readonly client: Warren,
    private readonly machine: string,
    private readonly channel: Channel,
    readonly sessionId: string,
  ) {}

  static async open(client: Warren, machine: string, at: string, o: TerminalOptions): Promise<Terminal> {
    const env = Object.entries(o.env ?? {}).map(([name, value]) => `${name}=${value}`);
    const query = { cols: o.cols ?? 80, rows: o.rows ?? 24, exec: o.command, cwd: o.cwd, sessionId: o.sessionId, env };
    const url = "ws" + client.url.slice("http".length) + machine + at + queryText(query);
    let channel: Channel;
    try {
      channel = await Channel.open(url, await client.key(), o.user, client.options.WebSocket);
    } catch (err) {
      await client.json("GET", machine); // a WebSocket of the platform does not say why it was refused, but this does
      throw err;
    }
    const first = await channel.next();
    if (typeof first !== "string") throw new UnavailableError(channel.reason || "the connection ended");
    const told: types.PtySession = JSON.parse(first).session;
    return new Terminal(client, machine, channel, told.sessionId);
  }

  /** Types into it. */
  write(data: string | Uint8Array): void {
    this.channel.send(bytesOf(data));
  }

  /** The next output; undefined once its program has ended. */
  async read(): Promise<Uint8Array | undefined> {
    while (this.exitCode === undefined) {
      const message = await this.channel.next();
      if (message === undefined) {
        throw new UnavailableError(`terminal ${this.sessionId}: ${this.channel.reason || "the connection ended"}`, { hint: "attach to it again" });
      }
      if (typeof message !== "string") return message;
      const told = JSON.parse(message) as { type?: string; exitCode?: number };
      if (told.type === "exited") this.exitCode = told.exitCode ?? 0;
    }
    return undefined;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (let data = await this.read(); data !== undefined; data = await this.read()) yield data;
  }

  /** Changes its size. */
  resize(cols: number, rows: number): void {
    this.channel.send(JSON.stringify({ type: "resize", cols, rows }));
  }

  /** Sends a signal to its programs, such as "INT". */
  signal(name: string): void {
    this.channel.send(JSON.stringify({ type: "signal", signal: "SIG" + name.replace(/^SIG/, "") }));
  }

  /** What is on its screen, as text. */
  screen(): Promise<string> {
    return this.client.json("GET", this.#at + "/screen");
  }

  /** Types text, waits until it is quiet, and returns the output: for programs without a screen. */
  send(text: string): Promise<types.PtyOutput> {
    return this.client.json("POST", this.#at + "/input", { json: { data: text } });
  }

  /** Ends this attachment. The terminal stays open. */
  detach(): void {
    this.channel.close();
  }

  /** Ends its programs. */
  async close(): Promise<void> {
    this.channel.close();
    await this.client.json("DELETE", this.#at);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.detach();
  }

  get #at(): string {
    return `${this.machine}/pty/sessions/${segment(this.sessionId)}`;
  }
}
