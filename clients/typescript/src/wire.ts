// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

import { GuestError, TimedOutError, WarrenError, fromBody } from "./errors.js";
import type { ErrorBody, ExecMessage, ExitStatus } from "./types.js";

/** The most bytes that run() keeps of each stream. stream() has no limit, since it keeps nothing. */
export const mostOutput = 64 << 20;

/** How a command ended, and what it printed. As text it is its standard output. */
export class Result {
  constructor(
    readonly stdout: string,
    readonly stderr: string,
    readonly exitCode: number,
    /** The signal that ended it, such as "KILL"; "" for none. */
    readonly signal: string,
    /** It printed more than was kept. */
    readonly truncated: boolean,
  ) {}

  get ok(): boolean {
    return this.exitCode === 0;
  }

  toString(): string {
    return this.stdout;
  }
}

/** A command that was run with check failed. */
export class CommandError extends WarrenError {
  static override readonly kind: string = "command";

  constructor(readonly result: Result) {
    const last = (result.stderr || result.stdout).trimEnd().split("\n").pop();
    super(`the command ended with exit code ${result.exitCode}${last ? `: ${last}` : ""}`, { code: "COMMAND_FAILED" });
  }
}

/** A command ran longer than its timeout and was ended. */
export class CommandTimeout extends TimedOutError {
  constructor(readonly result: Result, ms: number | undefined) {
    super(`the command ran longer than ${ms} ms and was ended`, { code: "EXEC_TIMED_OUT", hint: "give a longer timeoutMs" });
  }
}

/** A piece of what a command prints. */
export interface Output {
  stream: "stdout" | "stderr";
  data: Uint8Array;
  /** A character that is cut in two is in the later piece. */
  text: string;
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

export function toBase64(data: Uint8Array): string {
  let text = "";
  for (let i = 0; i < data.length; i += 0x8000) text += String.fromCharCode(...data.subarray(i, i + 0x8000));
  return btoa(text);
}

export function bytesOf(data: string | Uint8Array): Uint8Array {
  return typeof data === "string" ? new TextEncoder().encode(data) : data;
}

/** The lines of a streamed answer. Between lines of JSON, empty ones show that the server is there. */
export async function* linesOf(body: ReadableStream<Uint8Array>, empty = false): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts: string[] = []; // of a line whose end has not come
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const pieces = decoder.decode(value, { stream: !done }).split("\n");
      for (const [i, piece] of pieces.entries()) {
        parts.push(piece);
        if (i === pieces.length - 1 && !done) break;
        const line = parts.join("");
        parts = [];
        const last = done && i === pieces.length - 1; // what is after the last line's end
        if (line.trim() !== "" || (empty && !last)) yield line;
      }
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // ends the request if the caller left early
  }
}

/** Turns the lines of an exec answer into output, and keeps how the command ended. */
export class Messages {
  processId = "";
  status: ExitStatus | undefined;
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };

  take(line: string): Output | undefined {
    const m = JSON.parse(line) as ExecMessage;
    switch (m.type) {
      case "started":
        this.processId = m.process?.id ?? "";
        return undefined;
      case "stdout":
      case "stderr": {
        const data = fromBase64(m.data ?? "");
        return { stream: m.type, data, text: this.#decoders[m.type].decode(data, { stream: true }) };
      }
      case "exit":
        this.status = m.status;
        return undefined;
      case "error":
        throw fromBody(200, m.error as ErrorBody | undefined);
      default:
        return undefined;
    }
  }

  ended(): ExitStatus {
    if (!this.status) throw new GuestError(`the output of ${this.processId || "the command"} ended before the command did`);
    return this.status;
  }
}

/** Keeps what a command prints, up to a limit. */
export class Collected {
  readonly #kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  readonly #room = { stdout: mostOutput, stderr: mostOutput };
  #truncated = false;

  add(o: Output): void {
    const part = o.data.subarray(0, this.#room[o.stream]);
    this.#room[o.stream] -= part.length;
    this.#truncated ||= part.length < o.data.length;
    if (part.length > 0) this.#kept[o.stream].push(part);
  }

  result(status: ExitStatus): Result {
    return new Result(text(this.#kept.stdout), text(this.#kept.stderr), status.code, status.signal ?? "", this.#truncated);
  }
}

function text(parts: Uint8Array[]): string {
  const decoder = new TextDecoder();
  return parts.map((p) => decoder.decode(p, { stream: true })).join("") + decoder.decode();
}
