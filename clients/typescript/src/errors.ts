// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

/** What else is known about an error. */
export interface ErrorDetails {
  /** For programs, such as "VM_NOT_FOUND". */
  code?: string;
  /** Of HTTP; 0: there was no answer. */
  status?: number;
  /** What to do next. */
  hint?: string;
  requestId?: string;
  /** What else the answer says about this error. */
  fields?: Record<string, unknown>;
  cause?: unknown;
}

/** A request failed. Each kind of failure has a class below it. */
export class WarrenError extends Error {
  static readonly kind: string = "internal";
  readonly code: string;
  readonly status: number;
  readonly hint: string;
  readonly requestId: string;
  readonly fields: Record<string, unknown>;

  constructor(message: string, details: ErrorDetails = {}) {
    super(details.hint ? `${message} (hint: ${details.hint})` : message, { cause: details.cause });
    this.name = new.target.name;
    this.code = details.code ?? "";
    this.status = details.status ?? 0;
    this.hint = details.hint ?? "";
    this.requestId = details.requestId ?? "";
    this.fields = details.fields ?? {};
  }

  /** The kind of failure, such as "not-found". */
  get kind(): string {
    return (this.constructor as typeof WarrenError).kind;
  }
}

/** A bug in Warren. */
export class InternalError extends WarrenError {}

/** The request is malformed or contradicts itself. */
export class InvalidError extends WarrenError {
  static override readonly kind: string = "invalid";
}

/** No or unknown API key or token. */
export class UnauthenticatedError extends WarrenError {
  static override readonly kind: string = "unauthenticated";
}

/** This key or token may not do that. */
export class DeniedError extends WarrenError {
  static override readonly kind: string = "denied";
}

/** No such machine, image, process or path. */
export class NotFoundError extends WarrenError {
  static override readonly kind: string = "not-found";
}

/** The name or id is taken. */
export class ExistsError extends WarrenError {
  static override readonly kind: string = "exists";
}

/** Not possible in the machine's state. */
export class StateError extends WarrenError {
  static override readonly kind: string = "state";
}

/** Another operation is in progress. */
export class BusyError extends WarrenError {
  static override readonly kind: string = "busy";
}

/** A limit or the host's memory is reached. */
export class LimitError extends WarrenError {
  static override readonly kind: string = "limit";
}

/** No disk space. */
export class NoSpaceError extends WarrenError {
  static override readonly kind: string = "no-space";
}

/** This host, image or version cannot do that. */
export class UnsupportedError extends WarrenError {
  static override readonly kind: string = "unsupported";
}

/** The server is not running or not ready, or the connection to it broke. */
export class UnavailableError extends WarrenError {
  static override readonly kind: string = "unavailable";
}

/** A deadline has passed. */
export class TimedOutError extends WarrenError {
  static override readonly kind: string = "timeout";
}

/** The guest does not answer or answers wrongly. */
export class GuestError extends WarrenError {
  static override readonly kind: string = "guest";
}

/** Data failed its check. */
export class CorruptError extends WarrenError {
  static override readonly kind: string = "corrupt";
}

/** The server ended the request before it was done. */
export class InterruptedRequestError extends WarrenError {
  static override readonly kind: string = "cancelled";
}

const classes = new Map<unknown, typeof WarrenError>(
  [
    InternalError, InvalidError, UnauthenticatedError, DeniedError, NotFoundError, ExistsError, StateError, BusyError,
    LimitError, NoSpaceError, UnsupportedError, UnavailableError, TimedOutError, GuestError, CorruptError, InterruptedRequestError,
  ].map((c) => [c.kind, c]),
);

/** The error that the body of an answer describes. */
export function fromBody(status: number, body: unknown): WarrenError {
  if (typeof body !== "object" || body === null || typeof (body as { code?: unknown }).code !== "string") {
    return new UnavailableError(`the answer is not a Warren server's (status ${status})`, {
      status,
      hint: "check the address: WARREN_API_URL or url, and whether a proxy is in between",
    });
  }
  const { code, error: _code, message, kind, op: _op, subject: _subject, hint, requestId, ...fields } = body as Record<string, unknown>;
  const Class = classes.get(kind) ?? InternalError;
  return new Class(String(message ?? code), {
    code: String(code), status, hint: String(hint ?? ""), requestId: String(requestId ?? ""), fields,
  });
}

/** The error that the text of an answer describes. */
export function fromText(status: number, text: string): WarrenError {
  try {
    return fromBody(status, JSON.parse(text));
  } catch {
    return fromBody(status, undefined);
  }
}
