/** Settings of each kind of claim, checked and put into the words of the service. */

import type { Claim } from "./claims.js";
import { InvalidError } from "./errors.js";
import type { Routes } from "./keeper.js";
import type { Json } from "./models.js";
import { encoded } from "./service.js";

/** What every kind of claim can be told. */
export interface ClaimOptions {
  /** How long the lease lasts without renewal. Default 30000. */
  ttlMs?: number;
  /** How long to wait in line. Default: without end. */
  waitMs?: number;
  /** Who asks, for people to read; never a secret. Default: what the service calls us. */
  label?: string;
  /** `none` may overtake those who wait, and be overtaken. */
  queue?: "fifo" | "none";
  /** A lock that was not released rests for so long after its lease. */
  lockDelayMs?: number;
  /** On whose behalf, 16 hexadecimal digits: shows deadlocks. */
  actor?: string;
  /** It counts as lost after so long, however well it is renewed. Default: 24 h. */
  maxHoldMs?: number;
  /** How long before its end it counts as lost. Default: a tenth of the ttl. */
  lossMarginMs?: number;
  /** Stops waiting. It has no say once the lock is held. */
  signal?: AbortSignal;
}

export interface LockOptions extends ClaimOptions {
  mode?: "exclusive" | "shared";
  /** A wait that closes a circle of waiting actors ends with `DeadlockError`. */
  failOnDeadlock?: boolean;
}

export interface SemaphoreOptions extends ClaimOptions {
  /** How many permits there are. */
  permits: number;
  /** How many are wanted. Default 1. */
  take?: number;
}

export interface LeadOptions extends ClaimOptions {
  /** What others shall know of the leader, such as its address. */
  payload?: string;
}

const DAY_MS = 24 * 3600 * 1000;

function span(field: string, value: number, least: number): number {
  if (typeof value !== "number" || Number.isNaN(value) || value < least) {
    throw new InvalidError(`${field}: ${String(value)} is no span of at least ${least} ms`);
  }
  return value;
}

function claim(name: string, routes: Routes, more: Json, options: ClaimOptions): Claim {
  const ttl = Math.round(span("ttlMs", options.ttlMs ?? 30_000, 1));
  const margin = span("lossMarginMs", options.lossMarginMs ?? ttl / 10, 0);
  if (margin > ttl / 2) {
    throw new InvalidError(`lossMarginMs: ${margin} leaves no time to work: use half the ttl at most`);
  }
  const body: Json = { ttl_ms: ttl, ...more };
  if (options.label !== undefined) body["label"] = options.label;
  if (options.queue !== undefined) body["queue"] = options.queue;
  if (options.actor !== undefined) body["actor"] = options.actor;
  if (options.lockDelayMs !== undefined) body["lock_delay_ms"] = Math.round(span("lockDelayMs", options.lockDelayMs, 0));
  const maxHold = span("maxHoldMs", options.maxHoldMs ?? DAY_MS, 1);
  const terms = { ttl, margin, maxHold, rests: (options.lockDelayMs ?? 0) > 0 };
  return { name, routes, body, terms, waitMs: span("waitMs", options.waitMs ?? Infinity, 0), signal: options.signal };
}

function routes(at: string, owned: boolean): Routes {
  return { acquire: `${at}/acquire`, renew: `${at}/renew`, release: `${at}/release`, attempt: `${at}/try`, owned };
}

export function lockClaim(name: string, options: LockOptions): Claim {
  const more: Json = { mode: options.mode ?? "exclusive" };
  if (options.failOnDeadlock) more["fail_on_deadlock"] = true;
  return claim(name, routes(`/v1/locks/${encoded(name)}`, true), more, options);
}

export function semaphoreClaim(name: string, options: SemaphoreOptions): Claim {
  const more = { permits: options.permits, take: options.take ?? 1 };
  return claim(name, routes(`/v1/semaphores/${encoded(name)}`, false), more, options);
}

export function batchClaim(names: readonly string[], options: ClaimOptions): Claim {
  return claim(names.join(","), routes("/v1/batches", false), { names: [...names] }, options);
}

export function leadClaim(name: string, options: LeadOptions): Claim {
  const at = `/v1/elections/${encoded(name)}`;
  const ways = { acquire: `${at}/campaign`, renew: `${at}/renew`, release: `${at}/resign`, attempt: null, owned: true };
  return claim(name, ways, { payload: options.payload ?? "" }, options);
}

/** The same without waiting. */
export function atOnce(claim: Claim): Claim {
  if (claim.waitMs !== Infinity && claim.waitMs !== 0) {
    throw new InvalidError(`waitMs: ${claim.waitMs}: to try is not to wait; use the form that does`);
  }
  return { ...claim, waitMs: 0 };
}
