/** What can go wrong. Each error has the `code` of the service, which is stable. */

import { type Holder, type Json, readHolderOrNull } from "./models.js";

/** Everything that this package throws. */
export class FencepostError extends Error {
  /** Set on an answer to a request that had been sent before, with an outcome that nobody heard. */
  askedBefore = false;

  constructor(
    message: string,
    readonly code: string = "unexpected",
    readonly status: number | null = null,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/** A setting is refused: which, and what to do instead. */
export class InvalidError extends FencepostError {
  field: string | null = null;
  value: string | null = null;
  cure: string | null = null;

  constructor(message: string, status: number | null = null) {
    super(message, "invalid", status);
  }
}

/** Somebody else has it, and did so for as long as was waited. Nothing is wrong with the service. */
export class BusyError extends FencepostError {
  holder: Holder | null = null;
  waitedMs = 0;
}

/** This wait would have closed a circle of actors who wait for each other. */
export class DeadlockError extends FencepostError {
  cycle: unknown = null;
}

/** Released, lost, or never ours: the service does not tell which. */
export class NotHeldError extends FencepostError {
  reason: string | null = null;
}

/**
 * Why a lock was lost: nobody could renew it in time, somebody with the right to took it, the service does not know this
 * hold, it was held for as long as was allowed, or its client was closed.
 */
export type LossReason = "expired" | "revoked" | "gone" | "max_hold" | "closed";

/** A lock that was held is so no more, or will not be in a moment: what it protects is not ours to touch. */
export class LockLostError extends FencepostError {
  constructor(
    readonly lock: string,
    readonly reason: LossReason,
    detail: string,
  ) {
    super(`${lock}: lost (${reason}): ${detail}`, "lost");
  }
}

/**
 * The loss in whatever was caught: itself, as the cause of another error, or in a `SuppressedError`, which JavaScript makes of
 * two errors at the end of an `await using`. `null`: it is about something else.
 */
export function lossOf(error: unknown): LockLostError | null {
  const seen = new Set<unknown>();
  const look = (at: unknown): LockLostError | null => {
    if (at instanceof LockLostError) return at;
    if (typeof at !== "object" || at === null || seen.has(at)) return null;
    seen.add(at);
    const { error: last, suppressed, cause } = at as { error?: unknown; suppressed?: unknown; cause?: unknown };
    return look(last) ?? look(suppressed) ?? look(cause);
  };
  return look(error);
}

/** A newer token was granted: `seen`. */
export class StaleError extends FencepostError {
  seen: bigint | null = null;
}

/** This credential may not do that, or there is none. */
export class DeniedError extends FencepostError {}

/** A limit of the service was met; come again after so long. */
export class LimitedError extends FencepostError {
  retryAfterMs = 1000;
}

/** The store behind the service cannot do that. */
export class UnsupportedError extends FencepostError {}

/** No replica, or not its store, could answer. `outcomeUnknown`: what was asked may have been done all the same. */
export class UnreachableError extends FencepostError {
  retryAfterMs = 0;

  constructor(
    message: string,
    public outcomeUnknown: boolean,
    code = "unreachable",
    status: number | null = null,
  ) {
    super(message, code, status);
  }
}

/** The error that a problem of the service (RFC 9457) stands for. */
export function fromProblem(status: number, problem: Json, retryAfter: string | null = null): FencepostError {
  const text = (field: string): string | null => (typeof problem[field] === "string" ? String(problem[field]) : null);
  const code = text("code") ?? `http_${status}`;
  const detail = text("detail") ?? `the service answered ${status}`;
  const afterMs = Math.max(0, Number(retryAfter ?? 0) * 1000) || 0;
  switch (code) {
    case "invalid":
      return Object.assign(new InvalidError(detail, status), {
        field: text("field"),
        value: text("value"),
        cure: text("cure"),
      });
    case "held":
      return Object.assign(new BusyError(detail, code, status), {
        holder: readHolderOrNull(problem["holder"]),
        waitedMs: Number(problem["waited_ms"] ?? 0),
      });
    case "deadlock":
      return Object.assign(new DeadlockError(detail, code, status), { cycle: problem["cycle"] ?? null });
    case "not_held":
      return Object.assign(new NotHeldError(detail, code, status), { reason: text("reason") });
    case "stale": {
      const seen = text("seen");
      return Object.assign(new StaleError(detail, code, status), { seen: seen === null ? null : BigInt(seen) });
    }
  }
  // Not from the service but from something in between, which may have passed the request on.
  const isStrange = status >= 500 && text("code") === null;
  switch (status) {
    case 401:
    case 403:
      return new DeniedError(detail, code, status);
    case 429:
      return Object.assign(new LimitedError(detail, code, status), { retryAfterMs: afterMs || 1000 });
    case 501:
      return new UnsupportedError(detail, code, status);
    case 408:
    case 502:
    case 503:
    case 504: {
      const told = problem["outcome_unknown"];
      const unknown = typeof told === "boolean" && !isStrange ? told : isStrange || status !== 503;
      return Object.assign(new UnreachableError(detail, unknown, code, status), { retryAfterMs: afterMs });
    }
    default:
      return isStrange
        ? new UnreachableError(detail, true, code, status)
        : new FencepostError(detail, code, status);
  }
}
