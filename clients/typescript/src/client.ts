import { type Claim, take } from "./claims.js";
import { Clock, either, pause } from "./clock.js";
import { BusyError, FencepostError, fromProblem, LockLostError, UnreachableError } from "./errors.js";
import { type Keeper, releaseQuietly } from "./keeper.js";
import * as kinds from "./kinds.js";
import type { ClaimOptions, LeadOptions, LockOptions, SemaphoreOptions } from "./kinds.js";
import { Lock } from "./lock.js";
import * as models from "./models.js";
import type { Election, Holder, Json, LockEvent, LockState } from "./models.js";
import { encoded, replicas, Service, type ServiceOptions } from "./service.js";
import type { Said } from "./sse.js";

export interface ClientOptions extends ServiceOptions {
  /** What every claim is told that does not say otherwise. Whoever tries does not wait, whatever `waitMs` is here. */
  defaults?: ClaimOptions;
}

const RETRY_MS = 500;

/** Locks through the service: `new Client("http://127.0.0.1:7117")`, or several replicas as an array. */
export class Client {
  readonly #service: Service;
  readonly #defaults: ClaimOptions;
  /** The same for those who do not wait. */
  readonly #tries: ClaimOptions;
  readonly #kept = new Set<WeakRef<Keeper>>();
  readonly #pending = new Set<Promise<Keeper>>();
  readonly #closing = new AbortController();

  constructor(urls: string | readonly string[], options: ClientOptions = {}) {
    this.#service = new Service(replicas(urls), options, new Clock());
    this.#defaults = options.defaults ?? {};
    this.#tries = { ...this.#defaults };
    delete this.#tries.waitMs;
  }

  /** Waits for a lock. Aborted, it is out of the line at once, and nothing stays locked. */
  async lock(name: string, options: LockOptions = {}): Promise<Lock> {
    return this.#take(kinds.lockClaim(name, { ...this.#defaults, ...options }));
  }

  /** The lock, if nobody has it. */
  async tryLock(name: string, options: LockOptions = {}): Promise<Lock | null> {
    return this.#attempt(kinds.lockClaim(name, { ...this.#tries, ...options }));
  }

  /**
   * Runs the work under a lock. The work is told of a loss by `lock.signal`; when it has ended, a loss is thrown unless the
   * work itself threw: its error is never hidden.
   */
  async withLock<T>(name: string, options: LockOptions, work: (lock: Lock) => T | PromiseLike<T>): Promise<T> {
    return under(await this.lock(name, options), work);
  }

  /** Waits for some of so many permits. */
  async semaphore(name: string, options: SemaphoreOptions): Promise<Lock> {
    return this.#take(kinds.semaphoreClaim(name, { ...this.#defaults, ...options }));
  }

  async trySemaphore(name: string, options: SemaphoreOptions): Promise<Lock | null> {
    return this.#attempt(kinds.semaphoreClaim(name, { ...this.#tries, ...options }));
  }

  /** Waits for several names, all or nothing, whatever their order. */
  async lockAll(names: readonly string[], options: ClaimOptions = {}): Promise<Lock> {
    return this.#take(kinds.batchClaim(names, { ...this.#defaults, ...options }));
  }

  async tryLockAll(names: readonly string[], options: ClaimOptions = {}): Promise<Lock | null> {
    return this.#attempt(kinds.batchClaim(names, { ...this.#tries, ...options }));
  }

  /** Waits until it leads. */
  async lead(name: string, options: LeadOptions = {}): Promise<Lock> {
    return this.#take(kinds.leadClaim(name, { ...this.#defaults, ...options }));
  }

  /** Who leads, and who would. */
  async election(name: string): Promise<Election> {
    return models.readElection(await this.#get(`/v1/elections/${encoded(name)}`));
  }

  /** Who leads now, then each change; `null`: nobody does. */
  async *leaders(name: string, signal?: AbortSignal): AsyncGenerator<Holder | null, void, void> {
    for await (const { kind, data } of this.#streamed(`/v1/elections/${encoded(name)}/observe`, null, signal)) {
      if (kind === "leader") yield models.readHolderOrNull(JSON.parse(data));
    }
  }

  /** Who has it, and who is in line. */
  async inspect(name: string): Promise<LockState> {
    return models.readState(await this.#get(`/v1/locks/${encoded(name)}`));
  }

  /** All locks whose names start so, in order of their names. */
  async *locks(prefix = "", options: { contended?: boolean } = {}): AsyncGenerator<LockState, void, void> {
    const query: Record<string, string> = { prefix, contended: String(options.contended ?? false), limit: "100" };
    for (;;) {
      const page = await this.#get("/v1/locks", query);
      yield* models.readStates(page["locks"]);
      if (typeof page["next"] !== "string") return;
      query["after"] = page["next"];
    }
  }

  /** Throws a `StaleError` if a newer token than this was granted. */
  async checkToken(name: string, token: bigint | string): Promise<void> {
    await this.#get(`/v1/locks/${encoded(name)}/tokens/${encoded(String(token))}`);
  }

  /**
   * Takes it from its holder, who hears of it with the next renewal; with a `token` only if a holder has that, else
   * `NotHeldError`. Needs the right `admin`.
   */
  async forceRelease(name: string, reason = "", token?: bigint): Promise<Holder | null> {
    const body: Json = token === undefined ? { reason } : { reason, token: String(token) };
    // Sent twice, it would end the next one's hold.
    const path = `/v1/locks/${encoded(name)}/force-release`;
    return models.readHolderOrNull((await this.#service.ask("POST", path, body, { repeats: false }))["holder"]);
  }

  /** Asks its holder to let go. */
  async ask(name: string, note = "", label?: string): Promise<Holder | null> {
    const body: Json = label === undefined ? { note } : { note, label };
    const path = `/v1/locks/${encoded(name)}/ask`;
    return models.readHolderOrNull((await this.#service.ask("POST", path, body, { repeats: false }))["holder"]);
  }

  /** Each circle of locks: the holder of each waits for the next. */
  async deadlocks(): Promise<LockState[][]> {
    const cycles = (await this.#get("/v1/deadlocks"))["deadlocks"];
    return Array.isArray(cycles) ? cycles.map((cycle) => models.readStates(cycle)) : [];
  }

  /** What the store behind the service can do, and how its nodes are, as the service tells it. */
  nodes(): Promise<Json> {
    return this.#get("/v1/nodes");
  }

  /** What happens at a replica. After a break it goes on where it was; `missed` says that something is forgotten. */
  async *events(
    prefix = "",
    options: { lastId?: string; signal?: AbortSignal } = {},
  ): AsyncGenerator<LockEvent, void, void> {
    const path = `/v1/events?${new URLSearchParams({ prefix }).toString()}`;
    for await (const { kind, data, id } of this.#streamed(path, options.lastId ?? null, options.signal)) {
      const told = JSON.parse(data) as Json;
      yield { kind, name: typeof told["name"] === "string" ? told["name"] : null, data: told, id };
    }
  }

  /** Ends every wait, and releases what is still held: whoever works under it is told that it is lost. */
  async close(): Promise<void> {
    this.#closing.abort(new FencepostError("this client was closed", "closed"));
    const open = [...this.#kept].map((kept) => kept.deref()).filter((keeper) => keeper && !keeper.closed) as Keeper[];
    for (const keeper of open) keeper.abandon();
    const pending = [...this.#pending].map((taking) => taking.catch(() => undefined));
    await Promise.all([...open.map(releaseQuietly), ...pending]);
  }

  #get(path: string, query?: Record<string, string>): Promise<Json> {
    return this.#service.ask("GET", path, null, query ? { query } : {});
  }

  async #take(claim: Claim): Promise<Lock> {
    const closing = this.#closing.signal;
    closing.throwIfAborted();
    const stop = either(claim.signal, closing);
    const taking = take(this.#service, { ...claim, signal: stop.signal });
    this.#pending.add(taking);
    try {
      const keeper = await taking;
      if (closing.aborted) {
        await releaseQuietly(keeper);
        throw closing.reason;
      }
      for (const kept of this.#kept) if (kept.deref()?.closed ?? true) this.#kept.delete(kept);
      this.#kept.add(new WeakRef(keeper));
      return new Lock(keeper);
    } finally {
      stop.forget();
      this.#pending.delete(taking);
    }
  }

  async #attempt(claim: Claim): Promise<Lock | null> {
    try {
      return await this.#take(kinds.atOnce(claim));
    } catch (error) {
      if (error instanceof BusyError) return null;
      throw error;
    }
  }

  /** Goes on where it was when a replica has gone; only a refusal, or the signal, ends it. */
  async *#streamed(path: string, lastId: string | null, signal?: AbortSignal): AsyncGenerator<Said, void, void> {
    for (let last = lastId; !signal?.aborted; ) {
      const headers: Record<string, string> = last === null ? {} : { "last-event-id": last };
      try {
        const { replica, said } = await this.#service.stream("GET", path, null, headers, signal);
        for await (const event of said) {
          if (event.kind === "problem") {
            const problem = fromProblem(503, JSON.parse(event.data) as Json);
            if (!(problem instanceof UnreachableError)) throw problem;
            break;
          }
          last = event.id ?? last;
          yield event;
        }
        this.#service.leave(replica);
        await pause(RETRY_MS / 10, signal);
      } catch (error) {
        if (signal?.aborted) return;
        if (!(error instanceof UnreachableError)) throw error;
        await pause(RETRY_MS, signal);
      }
    }
  }
}

async function under<T>(lock: Lock, work: (lock: Lock) => T | PromiseLike<T>): Promise<T> {
  let result: T;
  try {
    result = await work(lock);
  } catch (error) {
    await lock.release().catch(() => undefined);
    throw error;
  }
  await lock.release().catch((error: unknown) => {
    // The work was done while the lock was held. What is left of the lease ends by itself.
    if (error instanceof LockLostError || !(error instanceof FencepostError)) throw error;
  });
  return result;
}
