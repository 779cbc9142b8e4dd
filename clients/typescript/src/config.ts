// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

import { BusyError, InvalidError, UnavailableError, type WarrenError } from "./errors.js";

export const defaultUrl = "http://127.0.0.1:8787";
export const version = "0.1.0";

/** The methods that may be sent twice: the second time changes nothing more. A POST makes
 *  something, or runs a command, so it is sent once. */
const repeatable = new Set(["GET", "HEAD", "PUT", "DELETE"]);

interface NodeProcess {
  env?: Record<string, string | undefined>;
  getuid?: () => number;
  versions?: { node?: string };
}

const node: NodeProcess | undefined = (globalThis as { process?: NodeProcess }).process;

/** A variable of the environment; a browser has none. */
export function env(name: string): string {
  return node?.env?.[name] ?? "";
}

/** Whether modules of Node are there. */
export const inNode = Boolean(node?.versions?.node);

/** A module of Node. Its name is not a literal, so that bundlers for browsers leave it alone. */
export async function nodeModule(name: string): Promise<any> {
  return import(/* @vite-ignore */ /* webpackIgnore: true */ name);
}

/** The address of a server, checked. */
export function addressOf(url: string | undefined): string {
  const text = (url || env("WARREN_API_URL") || defaultUrl).replace(/\/+$/, "");
  if (!/^https?:\/\/[^/]/.test(text)) throw new InvalidError(`${text} is not the address of a server`, { hint: `use a form such as ${defaultUrl}` });
  return text;
}

/** Whether a server of that address is on this host. */
export function isLoopback(url: string): boolean {
  const host = new URL(url).hostname;
  return host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** The key of the admin of this host's server, which is sent only to that server; "" if this user may not read it. */
export async function ownKey(url: string): Promise<string> {
  if (!inNode || !isLoopback(url)) return "";
  const { readFile } = await nodeModule("node:fs/promises");
  let dir = env("WARREN_DATA");
  if (!dir && node?.getuid?.() === 0) dir = "/var/lib/warren";
  if (!dir) dir = (env("XDG_DATA_HOME").startsWith("/") ? env("XDG_DATA_HOME") : `${env("HOME")}/.local/share`) + "/warren";
  try {
    return String(await readFile(`${dir}/admin.key`, "utf8")).trim();
  } catch {
    return ""; // the server's refusal says what is missing
  }
}

/** One segment of a path. */
export function segment(value: string): string {
  if (value === "" || value === "." || value === "..") throw new InvalidError(`"${value}" is no name or id`);
  return encodeURIComponent(value);
}

/** Milliseconds until a request is sent again; undefined: it is not. */
export function waitBefore(attempt: number, method: string, err: WarrenError, retries: number, retryAfter: string | null): number | undefined {
  if (!repeatable.has(method) || attempt >= retries || !(err instanceof UnavailableError || err instanceof BusyError)) return undefined;
  if (err.status !== 0 && err.status < 500 && !(err instanceof BusyError)) return undefined; // not a Warren server
  const pause = Math.min(8000, 250 * 2 ** attempt) * (0.5 + Math.random() / 2);
  return Math.max(pause, Math.min(30_000, 1000 * (Number(retryAfter ?? 0) || 0)));
}

/** A request's query. A list repeats its name. */
export function queryText(query: object): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) q.append(name, String(one));
  }
  const text = q.toString();
  return text && "?" + text;
}
