// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

import { type Warren, given } from "./client.js";
import { segment } from "./config.js";
import { NotFoundError, TimedOutError } from "./errors.js";
import { Files } from "./files.js";
import { Terminal, type TerminalOptions } from "./terminal.js";
import type * as types from "./types.js";
import { Collected, CommandError, CommandTimeout, Messages, type Output, type Result, bytesOf, linesOf, toBase64 } from "./wire.js";

// Older browsers lack the symbol. Programs for them call dispose() themselves.
(Symbol as { asyncDispose?: symbol }).asyncDispose ??= Symbol.for("Symbol.asyncDispose");

/** The longest that one request waits for something; the client asks again. */
const turn = 60_000;

/** How a command runs. */
export interface CommandOptions {
  /** Default: the user's home. */
  cwd?: string;
  env?: Record<string, string>;
  /** A Linux user. Default: root. */
  user?: string;
}

export interface StreamOptions extends CommandOptions {
  /** A command that runs longer is ended. */
  timeoutMs?: number;
  /** The whole standard input. */
  input?: string | Uint8Array;
  /** Ends the command. */
  signal?: AbortSignal;
}

export interface RunOptions extends StreamOptions {
  /** An exit code other than 0 throws CommandError. */
  check?: boolean;
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
}

export interface ForkOptions {
  /** The copies are NAME-1, NAME-2 and so on. */
  name?: string;
  ttlSeconds?: number;
  network?: string;
  volumes?: string;
}

/** A machine: a whole Linux computer. */
export class Machine {
  readonly files: Files;
  readonly path: string;

  constructor(
    readonly client: Warren,
    readonly id: string,
    readonly name: string = "",
    /** `await using` deletes it: true if this program made it. */
    public deleteOnDispose: boolean = false,
  ) {
    this.path = `/v1/vms/${segment(id)}`;
    this.files = new Files(client, this.path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.deleteOnDispose) return;
    try {
      await this.delete();
    } catch (err) {
      if (!(err instanceof NotFoundError)) throw err; // else it was deleted within the block
    }
  }

  /** Its record: state, size, image and more. */
  info(): Promise<types.VM> {
    return this.client.json("GET", this.path);
  }

  /** Runs a command and returns its output and exit code. A string is run by the shell, a list
   *  as it is. If this program ends first, the command is ended. */
  async run(command: string | string[], options: RunOptions = {}): Promise<Result> {
    const kept = new Collected();
    const stream = await this.stream(command, options);
    for await (const piece of stream) {
      kept.add(piece);
      const tell = piece.stream === "stdout" ? options.onStdout : options.onStderr;
      if (piece.text) tell?.(piece.text);
    }
    const result = kept.result(stream.status);
    if (stream.status.timedOut) throw new CommandTimeout(result, options.timeoutMs);
    if (options.check && !result.ok) throw new CommandError(result);
    return result;
  }

  /** Runs a command and returns its output piece by piece: iterate over it. Leaving the loop
   *  early ends the command. */
  async stream(command: string | string[], options: StreamOptions = {}): Promise<Stream> {
    const body: types.ExecChunked = { ...commandBody(command, options), owned: true };
    if (options.timeoutMs !== undefined) body.timeoutMs = Math.max(1, Math.round(options.timeoutMs));
    if (options.input !== undefined) Object.assign(body, { stdin: true, input: toBase64(bytesOf(options.input)) });
    const answer = await this.client.send("POST", this.path + "/exec", { json: body, stream: true, signal: options.signal });
    return new Stream(this.client, answer);
  }

  /** Starts a command in the background. It keeps running when this program ends. */
  async start(command: string | string[], options: CommandOptions = {}): Promise<Process> {
    const made: types.StartedProcess = await this.client.json("POST", this.path + "/processes", { json: commandBody(command, options) });
    return new Process(this.client, this.path, made.id);
  }

  /** The commands that were started, running or ended. */
  async processes(): Promise<types.Process[]> {
    const found: types.ProcessList = await this.client.json("GET", this.path + "/processes");
    return found.processes;
  }

  /** The command with an id, such as "p1". */
  process(id: string): Process {
    return new Process(this.client, this.path, id);
  }

  /** Waits until a program in the machine accepts connections on a TCP port. */
  async waitPort(port: number, timeoutMs?: number): Promise<void> {
    await waiting(timeoutMs, (ms) => this.client.json("POST", `${this.path}/ports/${port}/wait`, { query: { timeoutMs: ms } }));
  }

  /** Makes running copies of it, all or none, while it keeps running. */
  async fork(count = 1, options: ForkOptions = {}): Promise<Machine[]> {
    const made: types.ForkedVM = await this.client.json("POST", this.path + "/fork", { json: { count, ...options } });
    return made.forks.map((f) => new Machine(this.client, f.id, f.name ?? "", true));
  }

  /** Captures a snapshot while it keeps running. Its id is an image for machine(). */
  async snapshot(name?: string, options: { diskOnly?: boolean } = {}): Promise<string> {
    const made: types.TakenSnapshot = await this.client.json("POST", this.path + "/snapshot", { json: given({ name, ...options }) });
    return made.snapshotId;
  }

  /** Restores a generation or a snapshot of it; without `to` the newest. */
  rollback(to?: string): Promise<types.RolledBackVM> {
    return this.client.json("POST", this.path + "/rollback", { json: given({ to }) });
  }

  /** Saves memory and disk and ends it. resume() continues the same programs. */
  async suspend(): Promise<void> {
    await this.client.json("POST", this.path + "/suspend", { json: {} });
  }

  /** Starts it, if it is suspended or stopped. */
  async resume(): Promise<void> {
    await this.client.json("POST", this.path + "/start", { json: {} });
  }

  /** Shuts it down: its disk is kept, its memory is not. */
  async stop(): Promise<void> {
    await this.client.json("POST", this.path + "/stop", { json: {} });
  }

  /** Deletes it, with its disk. */
  async delete(): Promise<void> {
    await this.client.json("DELETE", this.path);
  }

  /** Opens a terminal with a login shell, or with a command, and attaches to it. */
  terminal(options: TerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.client, this.path, "/pty", options);
  }

  /** Attaches to a terminal that is open. */
  attach(sessionId: string, options: Pick<TerminalOptions, "cols" | "rows" | "user"> = {}): Promise<Terminal> {
    return Terminal.open(this.client, this.path, `/pty/sessions/${segment(sessionId)}`, options);
  }

  /** A port at the preview gateway; with `public` it is made public, or private again. */
  preview(port: number, options: { public?: boolean } = {}): Promise<types.Preview> {
    const at = `${this.path}/previews/${port}`;
    return options.public === undefined ? this.client.json("GET", at) : this.client.json("PUT", at, { json: { public: options.public } });
  }

  /** An address that opens a private port in a browser for a limited time. */
  async previewLink(port: number, seconds = 3600): Promise<string> {
    const made: types.PreviewLink = await this.client.json("POST", `${this.path}/previews/${port}/links`, { json: { forSeconds: seconds } });
    return made.url;
  }
}

function commandBody(command: string | string[], o: CommandOptions): types.ExecSpec {
  return { ...(typeof command === "string" ? { command } : { argv: command }), ...given({ cwd: o.cwd, env: o.env, user: o.user }) };
}

/** Asks in turns, so that no request waits for longer than connections live. */
async function waiting<T>(timeoutMs: number | undefined, ask: (ms: number) => Promise<T>): Promise<T> {
  const end = timeoutMs === undefined ? Infinity : Date.now() + timeoutMs;
  for (;;) {
    const left = Math.max(1, Math.min(turn, Math.round(end - Date.now())));
    try {
      return await ask(left);
    } catch (err) {
      if (!(err instanceof TimedOutError) || err.code !== "EXEC_TIMED_OUT" || Date.now() >= end) throw err;
    }
  }
}

/** The output of a command that runs. */
export class Stream implements AsyncIterable<Output> {
  readonly #messages = new Messages();

  constructor(
    private readonly client: Warren,
    private readonly answer: Response,
  ) {}

  /** The command's id, such as "p1", once it has started. */
  get processId(): string {
    return this.#messages.processId;
  }

  /** How the command ended. */
  get status(): types.ExitStatus {
    return this.#messages.ended();
  }

  get exitCode(): number {
    return this.status.code;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Output> {
    try {
      for await (const line of linesOf(this.answer.body!)) {
        const piece = this.#messages.take(line);
        if (piece) yield piece;
      }
    } catch (err) {
      throw err instanceof DOMException && err.name === "AbortError" ? err : this.client.broken(err);
    }
    this.#messages.ended();
  }

  /** Ends the command, if it still runs and nobody iterates over its output. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.answer.body?.locked) await this.answer.body?.cancel();
  }
}

/** A command in the background. */
export class Process {
  readonly #path: string;

  constructor(
    private readonly client: Warren,
    machine: string,
    readonly id: string,
  ) {
    this.#path = `${machine}/processes/${segment(id)}`;
  }

  /** Its record. Once it has ended, that has an exitCode. */
  info(): Promise<types.Process> {
    return this.client.json("GET", this.#path);
  }

  /** Waits for its end and returns its exit code. TimedOutError: it still runs. */
  async wait(timeoutMs?: number): Promise<number> {
    const ended = await waiting<types.Process>(timeoutMs, (ms) => this.client.json("POST", this.#path + "/wait", { query: { timeoutMs: ms } }));
    return ended.exitCode ?? -1;
  }

  /** What it has printed until now. */
  async output(): Promise<string> {
    return new TextDecoder().decode(await this.client.bytes("GET", this.#path + "/log"));
  }

  /** Its output, line by line, until it ends. */
  async *follow(): AsyncGenerator<string> {
    const answer = await this.client.send("GET", this.#path + "/log", { query: { follow: true }, stream: true });
    yield* linesOf(answer.body!, true);
  }

  /** Sends a signal to it and its children. */
  async signal(name = "TERM"): Promise<void> {
    await this.client.json("POST", this.#path + "/signal", { json: { signal: name } });
  }

  /** Ends it at once. */
  kill(): Promise<void> {
    return this.signal("KILL");
  }
}
