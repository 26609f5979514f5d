/** What the service tells, as plain data. Spans are milliseconds, tokens are exact. */

export interface Holder {
  label: string;
  token: bigint | null;
  shared: boolean;
  heldMs: number | null;
  expiresInMs: number | null;
  actor: string | null;
  /** What a leader publishes. */
  payload: string | null;
}

export interface Waiter {
  label: string;
  shared: boolean;
  waitedMs: number;
  actor: string | null;
}

/** A lock as its store sees it. No holder: it is free. */
export interface LockState {
  name: string;
  holders: Holder[];
  waiters: Waiter[];
  lastToken: bigint | null;
}

export interface Election {
  leader: Holder | null;
  candidates: Waiter[];
}

/** One permit of a semaphore: a slot that nobody else has, and its token. */
export interface Permit {
  slot: number;
  token: bigint;
}

/** Somebody asks the holder to let go; the holder decides. */
export interface YieldRequest {
  by: string;
  note: string;
  number: number;
}

/** Something that happened at a replica. `missed`: others happened that nobody can tell any more. */
export interface LockEvent {
  kind: string;
  name: string | null;
  data: Json;
  id: string | null;
}

/** What the service sends: an object of JSON. */
export type Json = { [field: string]: unknown };

export function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const text = (value: unknown): string | null => (typeof value === "string" ? value : null);
const span = (value: unknown): number | null => (typeof value === "number" ? value : null);
const list = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isJson) : []);

/** The number of a token; a reader's starts with `r`. */
export function tokenNumber(token: string): bigint {
  return BigInt(token.startsWith("r") ? token.slice(1) : token);
}

export function readHolder(data: Json): Holder {
  const token = text(data["token"]);
  return {
    label: text(data["label"]) ?? "",
    token: token === null ? null : tokenNumber(token),
    shared: data["shared"] === true,
    heldMs: span(data["held_ms"]),
    expiresInMs: span(data["expires_in_ms"]),
    actor: text(data["actor"]),
    payload: text(data["payload"]),
  };
}

export function readHolderOrNull(data: unknown): Holder | null {
  return isJson(data) ? readHolder(data) : null;
}

function readWaiter(data: Json): Waiter {
  return {
    label: text(data["label"]) ?? "",
    shared: data["shared"] === true,
    waitedMs: span(data["waited_ms"]) ?? 0,
    actor: text(data["actor"]),
  };
}

export function readState(data: Json): LockState {
  const last = text(data["last_token"]);
  return {
    name: text(data["name"]) ?? "",
    holders: list(data["holders"]).map(readHolder),
    waiters: list(data["waiters"]).map(readWaiter),
    lastToken: last === null ? null : BigInt(last),
  };
}

export function readStates(data: unknown): LockState[] {
  return list(data).map(readState);
}

export function readElection(data: Json): Election {
  return { leader: readHolderOrNull(data["leader"]), candidates: list(data["candidates"]).map(readWaiter) };
}

export function readYieldRequest(data: unknown): YieldRequest | null {
  if (!isJson(data)) return null;
  return { by: text(data["by"]) ?? "", note: text(data["note"]) ?? "", number: span(data["number"]) ?? 0 };
}

export function readPermits(data: unknown): Permit[] {
  return list(data).map((permit) => ({ slot: Number(permit["slot"]), token: BigInt(String(permit["token"])) }));
}
