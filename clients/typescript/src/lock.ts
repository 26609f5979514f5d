/// <reference lib="esnext.disposable" preserve="true" />
import "./dispose.js";
import { FencepostError, InvalidError, type LockLostError } from "./errors.js";
import type { Keeper } from "./keeper.js";
import { isJson, type Permit, readPermits, tokenNumber, type YieldRequest } from "./models.js";

/** Something that is held, and renewed until it is released or lost. */
export class Lock implements AsyncDisposable {
  readonly #keeper: Keeper;
  #told = false;
  #left = false;

  /** @internal */
  constructor(keeper: Keeper) {
    this.#keeper = keeper;
  }

  /** Of the lock, the semaphore or the election; of several locks all names, joined by commas. */
  get name(): string {
    return this.#keeper.name;
  }

  /**
   * Aborted when the lock is lost, a margin before its lease ends; its reason is a `LockLostError`. Whoever asks for it
   * gets it by the clock of this moment; one that was kept may be late after a pause: `check` is not.
   */
  get signal(): AbortSignal {
    return this.#keeper.signal;
  }

  /**
   * The fencing token, to be shown to whatever the lock protects; of a leader the term. A reader has none that is good for
   * a write: `readerToken` is for its log.
   */
  get token(): bigint {
    const token = this.#single();
    if (token.startsWith("r")) {
      throw new InvalidError("token: a reader has none that is good for a write: see `readerToken`");
    }
    return BigInt(token);
  }

  /** The number of a reader's token: orders nothing that is written. */
  get readerToken(): bigint {
    const token = this.#single();
    if (!token.startsWith("r")) throw new InvalidError("readerToken: this is no reader: see `token`");
    return tokenNumber(token);
  }

  #single(): string {
    const token = this.#keeper.lease["token"];
    if (typeof token !== "string") {
      throw new InvalidError("token: each permit and each name has its own: see `permits` and `tokens`");
    }
    return token;
  }

  /** The token of each name; a reader has none that is good for a write. */
  get tokens(): Map<string, bigint> {
    const tokens = this.#keeper.lease["tokens"];
    const entries = isJson(tokens) ? Object.entries(tokens) : [[this.name, this.#single()] as const];
    const writers = entries.filter(([, token]) => !String(token).startsWith("r"));
    return new Map(writers.map(([name, token]) => [name, BigInt(String(token))]));
  }

  /** Of a semaphore. */
  get permits(): Permit[] {
    return readPermits(this.#keeper.lease["permits"]);
  }

  /** Somebody would like to have it, as the last renewal told. The holder decides. */
  get yieldRequested(): YieldRequest | null {
    return this.#keeper.asked;
  }

  /** By our own clock and all we have heard. It does not replace the check of the token at the resource. */
  get isHeld(): boolean {
    return !this.#keeper.closed && this.#keeper.loss() === null;
  }

  /** Why it was lost. */
  get lost(): LockLostError | null {
    return this.#keeper.loss();
  }

  /** Milliseconds until it may not be believed in any more without renewal; zero once lost or released. */
  remaining(): number {
    return this.#keeper.remaining();
  }

  /** Throws a `LockLostError` unless it is held: for the middle of long work. */
  check(): void {
    const loss = this.#keeper.loss();
    if (loss !== null) {
      this.#told = true;
      throw loss;
    }
    if (this.#keeper.closed) throw new FencepostError(`${this.name}: it was released`, "not_held");
  }

  /** Renews now, besides the renewals that come by themselves; answers the milliseconds left. */
  async renew(): Promise<number> {
    this.check();
    await this.#keeper.renew();
    return this.remaining();
  }

  /**
   * Lets go. `LockLostError`: it had been lost before. `UnreachableError`: not confirmed yet; it is tried on until the
   * lease ends.
   */
  release(): Promise<void> {
    this.#left = true;
    return this.#keeper.release();
  }

  /**
   * The end of `await using`. Throws a `LockLostError` if the lock was lost and `check` has not said so; a release that
   * nobody confirmed is no error here: the work was done under the lock, and the lease ends by itself.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#left) return;
    await this.#keeper.release().catch((error: unknown) => {
      if (error instanceof FencepostError && (error !== this.#keeper.loss() || this.#told)) return;
      throw error;
    });
  }
}
