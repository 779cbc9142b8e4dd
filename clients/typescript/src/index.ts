// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

/** Computers for AI agents on your own server. */
export { type MachineOptions, Warren, type WarrenOptions } from "./client.js";
export * from "./errors.js";
export { Files } from "./files.js";
export { type CommandOptions, type ForkOptions, Machine, Process, type RunOptions, Stream, type StreamOptions } from "./machine.js";
export type { Operations } from "./operations.js";
export { Terminal, type TerminalOptions } from "./terminal.js";
export type * as types from "./types.js";
export { CommandError, CommandTimeout, type Output, Result } from "./wire.js";
