/** Claims: taken at once or waited for in line, the same claim at whichever replica, and nothing left behind. */

import { later, pause } from "./clock.js";
import { BusyError, fromProblem, LimitedError, NotHeldError, UnreachableError } from "./errors.js";
import { insist, Keeper, releaseQuietly, type Routes, type Terms } from "./keeper.js";
import type { Json } from "./models.js";
import type { Service } from "./service.js";

/** The longest wait of one request; the claim comes back with its ticket after that. */
const WAIT_MS = 240_000;
/** Who waits without end is told of trouble that lasts so long. */
const TROUBLE_MS = 30_000;
/** What was handed over in line lasts so long until it is renewed. */
const HAND_OVER_MS = 3000;
const FORGET_MS = 2000;
const SETTLE_MS = 1000;

export interface Claim {
  name: string;
  routes: Routes;
  body: Json;
  terms: Terms;
  /** `Infinity` is without end. */
  waitMs: number;
  signal: AbortSignal | undefined;
}

/** The same claim goes on with another request. */
class Again {
  constructor(readonly trouble: UnreachableError | LimitedError | null = null) {}
}

/** Waits for the claim. Aborted or failed, it is out of the line, and what was on its way is given back. */
export async function take(service: Service, claim: Claim): Promise<Keeper> {
  claim.signal?.throwIfAborted();
  const pursuit = new Pursuit(service, claim, await newOwner());
  let keeper: Keeper;
  try {
    keeper = await pursuit.run();
  } catch (error) {
    const isAborted = claim.signal?.aborted ?? false;
    const forgotten = pursuit.forget(isAborted || error instanceof UnreachableError);
    if (isAborted) await forgotten;
    throw error;
  }
  if (claim.signal?.aborted) {
    await releaseQuietly(keeper);
    throw claim.signal.reason;
  }
  return keeper;
}

class Pursuit {
  readonly #began: number;
  #ticket: string | null = null;
  /** The store may know of us. */
  #known = false;
  /** A request was never answered: it may be heard at any time. */
  #unheard = false;
  /** What was granted, as long as it is not known to have ended. */
  #lease: Json | null = null;
  #troubleSince: number | null = null;

  constructor(
    private readonly service: Service,
    private readonly claim: Claim,
    private readonly owner: string,
  ) {
    this.#began = service.clock.now();
  }

  #now(): number {
    return this.service.clock.now();
  }

  #left(): number {
    return this.#began + this.claim.waitMs - this.#now();
  }

  async run(): Promise<Keeper> {
    const { name, routes, terms, waitMs, signal } = this.claim;
    for (let rest = 50; ; ) {
      signal?.throwIfAborted();
      try {
        let sent = this.#now();
        const { lease, waited } = await (waitMs > 0 ? this.#wait() : this.#attempt());
        if (waited || this.#now() - sent > terms.ttl / 3) sent = await this.#sure(lease);
        return new Keeper(this.service, name, routes, lease, sent, terms, this.#unheard);
      } catch (again) {
        signal?.throwIfAborted();
        if (!(again instanceof Again)) throw again;
        if (again.trouble === null) {
          this.#troubleSince = null;
          rest = 50;
          continue;
        }
        await this.#rideOut(again.trouble, rest);
        rest = Math.min(1000, rest * 2);
      }
    }
  }

  async #rideOut(trouble: UnreachableError | LimitedError, rest: number): Promise<void> {
    this.#troubleSince ??= this.#now();
    const ms = Math.max(rest * (0.5 + Math.random() / 2), trouble.retryAfterMs / 2);
    const patient = this.claim.waitMs !== Infinity || this.#now() - this.#troubleSince < TROUBLE_MS;
    if (this.#left() <= ms || !patient) throw trouble;
    await pause(ms, this.claim.signal);
  }

  #body(): Json {
    const body = { ...this.claim.body };
    if (this.claim.routes.owned) {
      body["owner"] = this.owner;
      if (this.#ticket !== null) body["ticket"] = this.#ticket;
    }
    return body;
  }

  async #attempt(): Promise<{ lease: Json; waited: boolean }> {
    const { routes } = this.claim;
    const before = this.#known;
    this.#known = true;
    const under = new UnderWay(this.claim.signal);
    try {
      const asked = { repeats: routes.owned, signal: under.signal, unheard: this.#isUnheard };
      const lease = await this.service.ask("POST", routes.attempt ?? routes.acquire, this.#body(), asked);
      this.#lease = lease;
      return { lease, waited: false };
    } catch (error) {
      if (error instanceof UnreachableError) this.#known = before || error.outcomeUnknown;
      if (error instanceof BusyError) this.#known = before || error.askedBefore;
      throw error;
    } finally {
      under.end();
    }
  }

  readonly #isUnheard = (): void => {
    this.#unheard = true;
  };

  async #wait(): Promise<{ lease: Json; waited: boolean }> {
    const left = Math.max(0, Math.min(this.#left(), WAIT_MS));
    const body = { ...this.#body(), wait_ms: Math.ceil(left) };
    this.#known = true;
    return this.claim.routes.owned ? this.#inLine(body) : this.#inSilence(body, left);
  }

  /** By a stream, which tells that the replica is still there. */
  async #inLine(body: Json): Promise<{ lease: Json; waited: boolean }> {
    const under = new UnderWay(this.claim.signal);
    try {
      return await this.#follow(body, under);
    } finally {
      under.end();
    }
  }

  async #follow(body: Json, under: UnderWay): Promise<{ lease: Json; waited: boolean }> {
    const path = this.claim.routes.acquire;
    const opening = this.service.stream("POST", path, body, {}, under.signal, this.#isUnheard);
    const { replica, said } = await opening.catch(asAgain);
    let [waited, heard] = [false, false];
    for await (const { kind, data } of said) {
      heard = true;
      under.isHeard();
      const told = JSON.parse(data) as Json;
      if (kind === "granted") {
        this.#lease = told;
        return { lease: told, waited };
      }
      if (kind === "waiting") {
        waited = true;
        this.#troubleSince = null;
        if (typeof told["ticket"] === "string") this.#ticket = told["ticket"];
      } else if (kind === "problem") {
        const error = fromProblem(Number(told["status"] ?? 500), told);
        if (error instanceof BusyError) throw this.#stillBusy(error);
        if (error instanceof UnreachableError) this.service.leave(replica);
        return asAgain(error);
      }
    }
    // Whoever has heard it takes it out of the line when we go; one that has gone itself may come back.
    if (!heard || !this.claim.signal?.aborted) this.#unheard = true;
    this.service.leave(replica);
    throw new Again(new UnreachableError("the replica has gone while we waited", true));
  }

  /** By one request, for kinds that have no stream. Whoever closes it is out of the line. */
  async #inSilence(body: Json, left: number): Promise<{ lease: Json; waited: boolean }> {
    const { routes, signal } = this.claim;
    try {
      const asked = { eachMs: left + 10_000, repeats: false, signal };
      return { lease: await this.service.ask("POST", routes.acquire, body, asked), waited: false };
    } catch (error) {
      if (error instanceof BusyError) throw this.#stillBusy(error);
      return asAgain(error);
    }
  }

  #stillBusy(busy: BusyError): Again | BusyError {
    if (this.#left() > 1) return new Again();
    busy.waitedMs = this.#now() - this.#began;
    return busy;
  }

  /** The same; if it fails, what has no owner of ours to name it by is given back at once. */
  async #sure(lease: Json): Promise<number> {
    try {
      return await this.#confirm(lease);
    } catch (error) {
      const { routes } = this.claim;
      if (!routes.owned) void this.#giveBack(lease).then((done) => done || insist(() => this.#giveBack(lease)));
      throw error;
    }
  }

  /** After a wait nobody knows how old the grant is: it counts from a renewal. */
  async #confirm(lease: Json): Promise<number> {
    const { routes, terms, signal } = this.claim;
    const until = this.#now() + HAND_OVER_MS;
    for (;;) {
      const sent = this.#now();
      try {
        await this.service.ask("POST", routes.renew, lease, { eachMs: Math.min(1000, terms.ttl / 3), until, signal });
        return sent;
      } catch (error) {
        signal?.throwIfAborted();
        if (error instanceof NotHeldError) {
          this.#ticket = this.#lease = null;
          throw new Again();
        }
        if (this.#now() >= until) return asAgain(error);
        if (!(error instanceof UnreachableError || error instanceof LimitedError)) throw error;
        await pause(50, signal);
      }
    }
  }

  /**
   * Out of the line, and whatever was granted meanwhile given back. It is tried once; if that was not enough, or a request
   * of this claim was never answered, it is said again for a while, though nobody waits for that.
   */
  async forget(insists: boolean): Promise<void> {
    if (!this.#known || !this.claim.routes.owned) return;
    const done = await this.#giveBack(this.#ours());
    if (this.#unheard || (insists && !done)) insist(() => this.#giveBack(this.#ours()));
  }

  #ours(): Json {
    // No renewal of it can come after this.
    if (this.#lease !== null) return this.#lease;
    const { body } = this.claim;
    // The smallest token: whatever this owner holds is not older.
    const lease: Json = { owner: this.owner, token: "1", ttl_ms: body["ttl_ms"] };
    if ("mode" in body) lease["mode"] = body["mode"];
    return lease;
  }

  /** Whether nothing of this claim is left, as far as it was heard. */
  async #giveBack(lease: Json): Promise<boolean> {
    try {
      await this.service.ask("POST", this.claim.routes.release, lease, { eachMs: 1000, until: this.#now() + FORGET_MS });
      return true;
    } catch (error) {
      return error instanceof NotHeldError && !this.#unheard;
    }
  }
}

/**
 * A request that is under way is heard before the release that follows an abort: it is not cut off before the service has
 * said something, unless that takes too long.
 */
class UnderWay {
  readonly #controller = new AbortController();
  #heard = false;
  #stop: () => void = () => undefined;

  constructor(private readonly outer: AbortSignal | undefined) {
    outer?.addEventListener("abort", this.#aborted);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly #aborted = (): void => {
    if (this.#heard) this.#controller.abort();
    else this.#stop = later(SETTLE_MS, () => this.#controller.abort());
  };

  isHeard(): void {
    this.#heard = true;
    if (this.outer?.aborted) this.#controller.abort();
  }

  end(): void {
    this.#stop();
    this.outer?.removeEventListener("abort", this.#aborted);
  }
}

function asAgain(error: unknown): never {
  throw error instanceof UnreachableError || error instanceof LimitedError ? new Again(error) : error;
}

/** 20 random bytes: whoever knows them has the lock. */
async function newOwner(): Promise<string> {
  const bytes = (await randomness()).getRandomValues(new Uint8Array(20));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Node.js 18 has it as a module only, which no browser has. */
async function randomness(): Promise<Crypto> {
  const global: Crypto | undefined = globalThis.crypto;
  if (global !== undefined) return global;
  const module: string = "node:crypto";
  const { webcrypto } = (await import(/* webpackIgnore: true */ /* @vite-ignore */ module)) as { webcrypto: Crypto };
  return webcrypto;
}
