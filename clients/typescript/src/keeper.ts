/** Keeps one lease: renews it in time, and says in time that it is lost. */

import { type Clock, later, quietPause, validUntil } from "./clock.js";
import { FencepostError, LockLostError, type LossReason, NotHeldError, UnreachableError } from "./errors.js";
import { type Json, readYieldRequest, type YieldRequest } from "./models.js";
import type { Service } from "./service.js";

/** How long leaving waits for the service to confirm; after that it is tried in the background. */
const LEAVE_MS = 2000;
/** At most so long until a machine that has slept, or a page in the background, looks at the clock. */
const TICK_MS = 1000;
/** When to say again that something is given up of which a request was never answered: nobody knows when it is heard. */
const INSIST_MS = [250, 1000, 3000, 6000];

/** How a kind of thing is taken and kept. */
export interface Routes {
  acquire: string;
  renew: string;
  release: string;
  /** Without waiting; a kind that has no such route waits for no time. */
  attempt: string | null;
  /** The claim is made under an owner of ours, and may be sent again. */
  owned: boolean;
}

/** How a lease is kept, in milliseconds. */
export interface Terms {
  ttl: number;
  margin: number;
  maxHold: number;
  /** A lock that was not released rests for a while: whoever lost it must not release it, which would end that. */
  rests: boolean;
}

export class Keeper {
  readonly #lost = new AbortController();
  readonly #renewing = new AbortController();
  readonly #clock: Clock;
  readonly #limit: number;
  #sent: number;
  #loss: LockLostError | null = null;
  #following: number;
  #busy: Promise<void> | null = null;
  #stopTimer: () => void = () => undefined;
  #released: Promise<void> | null = null;
  closed = false;
  renewals = 0;
  asked: YieldRequest | null = null;

  constructor(
    private readonly service: Service,
    readonly name: string,
    private readonly routes: Routes,
    readonly lease: Json,
    sent: number,
    private readonly terms: Terms,
    /** A request of its claim was never answered, and may be heard after the release. */
    private readonly unheard: boolean,
  ) {
    this.#clock = service.clock;
    this.#sent = sent;
    this.#following = sent + terms.ttl / 3;
    this.#limit = this.#clock.now() + terms.maxHold;
    this.#schedule();
  }

  /** Aborted when the lock is lost, by the clock of this very moment. */
  get signal(): AbortSignal {
    this.loss();
    return this.#lost.signal;
  }

  #end(): number {
    return Math.min(validUntil(this.#sent, this.terms.ttl), this.#limit);
  }

  #lossAt(): number {
    return Math.min(validUntil(this.#sent, this.terms.ttl) - this.terms.margin, this.#limit);
  }

  remaining(): number {
    return this.loss() !== null || this.closed ? 0 : Math.max(0, this.#end() - this.#clock.now());
  }

  /** By all we have heard, and by the clock of this very moment. */
  loss(): LockLostError | null {
    if (this.#loss === null && !this.closed && this.#clock.now() >= this.#lossAt()) {
      const [reason, detail]: [LossReason, string] =
        this.#clock.now() >= this.#limit
          ? ["max_hold", `held for ${this.terms.maxHold} ms, as long as was allowed`]
          : ["expired", "it could not be renewed in time"];
      this.#lose(reason, detail);
    }
    return this.#loss;
  }

  #lose(reason: LossReason, detail: string): void {
    if (this.#loss !== null || this.closed) return;
    this.#loss = new LockLostError(this.name, reason, detail);
    this.#stopTimer();
    this.#lost.abort(this.#loss);
  }

  /** Its client ends it, whoever works under it. */
  abandon(): void {
    this.#lose("closed", "its client was closed");
  }

  #schedule(): void {
    this.#stopTimer();
    if (this.closed || this.loss() !== null) return;
    const next = this.#busy === null ? Math.min(this.#following, this.#lossAt()) : this.#lossAt();
    this.#stopTimer = later(Math.max(0, Math.min(next - this.#clock.now(), TICK_MS)), () => this.#tick());
  }

  #tick(): void {
    if (this.closed || this.loss() !== null) return;
    if (this.#busy === null && this.#clock.now() >= this.#following) {
      this.#busy = this.renew()
        .catch(() => {
          // The old end stands. Ask again soon, as long as there is time.
          this.#following = this.#clock.now() + this.terms.ttl / 24;
        })
        .finally(() => {
          this.#busy = null;
          this.#schedule();
        });
    }
    this.#schedule();
  }

  /** One round. `LockLostError`, or another: nobody knows, and the old end stands. */
  async renew(): Promise<void> {
    const known = this.loss();
    if (known !== null) throw known;
    const sent = this.#clock.now();
    try {
      // Short enough to leave time for the others, and for another round.
      const asked = { eachMs: this.terms.ttl / 6, until: this.#lossAt(), signal: this.#renewing.signal };
      const answer = await this.service.ask("POST", this.routes.renew, this.lease, asked);
      if (this.#loss !== null) return;
      this.#sent = Math.max(this.#sent, sent);
      this.#following = this.#sent + this.terms.ttl / 3;
      this.renewals += 1;
      this.asked = readYieldRequest(answer["yield_requested"]);
    } catch (error) {
      if (!(error instanceof NotHeldError)) throw error;
      this.#lose(error.reason === "revoked" ? "revoked" : "gone", error.message);
      throw this.#loss ?? error;
    }
  }

  /**
   * Ends the hold. `LockLostError`: it had ended before. `UnreachableError`: not confirmed yet, and tried on until the end
   * of the lease. Asked twice, it is done once.
   */
  release(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  async #release(): Promise<void> {
    const loss = this.loss();
    this.#stopTimer();
    this.#renewing.abort();
    this.closed = true;
    // No renewal comes after the release.
    await this.#busy;
    if (loss === null) return this.#leave();
    if (loss.reason === "closed") {
      await this.#leave().catch(() => undefined);
    } else if (!(this.terms.rests && isOver(loss))) {
      // It may still be there, and others wait for it.
      if (isOver(loss)) void this.#releaseUntil(this.#clock.now() + this.terms.ttl);
      this.#insist();
    }
    throw loss;
  }

  async #leave(): Promise<void> {
    const end = validUntil(this.#sent, this.terms.ttl);
    try {
      const asked = { eachMs: LEAVE_MS / 2, until: Math.min(end, this.#clock.now() + LEAVE_MS) };
      await this.service.ask("POST", this.routes.release, this.lease, asked);
    } catch (error) {
      if (error instanceof NotHeldError) {
        if (error.askedBefore) return;
        const reason = error.reason === "revoked" ? "revoked" : "gone";
        this.#loss ??= new LockLostError(this.name, reason, error.message);
        this.#lost.abort(this.#loss);
        throw this.#loss;
      }
      if (error instanceof UnreachableError) void this.#releaseUntil(end);
      throw error;
    } finally {
      this.#insist();
    }
  }

  #insist(): void {
    if (!this.unheard) return;
    const asked = { eachMs: LEAVE_MS / 2 };
    insist(() => this.service.ask("POST", this.routes.release, this.lease, asked).then(() => true));
  }

  async #releaseUntil(end: number): Promise<void> {
    while (this.#clock.now() < end) {
      try {
        await this.service.ask("POST", this.routes.release, this.lease, { eachMs: LEAVE_MS / 2, until: end });
        return;
      } catch (error) {
        if (!(error instanceof UnreachableError)) return;
        await quietPause(Math.min(1000, this.terms.ttl / 24));
      }
    }
  }
}

/** Over by the clock, while the service may still know it. */
function isOver(loss: LockLostError): boolean {
  return loss.reason === "expired" || loss.reason === "max_hold";
}

/** Says it again and again for a while, though nobody waits for it, until that was good for something. */
export function insist(say: () => Promise<boolean>): void {
  const insisting = async (): Promise<void> => {
    for (const ms of INSIST_MS) {
      await quietPause(ms);
      if (await say().catch(() => false)) return;
    }
  };
  void insisting();
}

/** Releases it, and leaves the rest to the end of its lease. */
export async function releaseQuietly(keeper: Keeper): Promise<void> {
  await keeper.release().catch((error: unknown) => {
    if (!(error instanceof FencepostError)) throw error;
  });
}
