/**
 * Time that goes on while the machine sleeps, as a lease does. No clock of the platform does that everywhere, so the
 * monotonic one is moved on when the wall clock is suddenly ahead of it. A wall clock that is set forward makes a lease seem
 * older than it is, which is safe; one that is set back is not heeded.
 */
export class Clock {
  /** By how much the machine slept, as far as is known. */
  #slept = 0;
  /** By how much the wall clock is ahead of the monotonic one. */
  #ahead: number;

  constructor(
    private readonly monotonic: () => number = () => performance.now(),
    private readonly wall: () => number = () => Date.now(),
  ) {
    this.#ahead = this.wall() - this.monotonic();
  }

  /** Milliseconds since some moment; never goes back. */
  now(): number {
    const monotonic = this.monotonic();
    const jump = this.wall() - monotonic - this.#ahead;
    // Less is how finely the two are read.
    if (Math.abs(jump) >= JUMP_MS) {
      this.#ahead += jump;
      this.#slept += Math.max(0, jump);
    }
    return monotonic + this.#slept;
  }
}

const JUMP_MS = 10;

/** Until when a grant may be believed in: from before the request left, less what two clocks may drift apart. */
export function validUntil(sent: number, ttl: number): number {
  return sent + ttl - (ttl / 100 + 2);
}

/** A timer that keeps no process alive. */
export function later(ms: number, action: () => void): () => void {
  const timer: unknown = setTimeout(action, ms);
  (timer as { unref?: () => void }).unref?.();
  return () => clearTimeout(timer as ReturnType<typeof setTimeout>);
}

/** A pause that somebody waits for, or until the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}

/** Aborted with the first of them, until it is forgotten: `AbortSignal.any` is younger than Node.js 18. */
export function either(...signals: (AbortSignal | undefined)[]): { signal: AbortSignal; forget: () => void } {
  const controller = new AbortController();
  const relays = signals.map((signal) => {
    const relay = (): void => controller.abort(signal?.reason);
    if (signal?.aborted) relay();
    signal?.addEventListener("abort", relay);
    return () => signal?.removeEventListener("abort", relay);
  });
  return { signal: controller.signal, forget: () => relays.forEach((forget) => forget()) };
}

/** A pause that keeps no process alive. */
export function quietPause(ms: number): Promise<void> {
  return new Promise((resolve) => void later(ms, resolve));
}
