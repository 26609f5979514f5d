/** Requests, and which replica they go to. */

import { type Clock, later } from "./clock.js";
import { FencepostError, fromProblem, InvalidError, UnreachableError } from "./errors.js";
import { isJson, type Json } from "./models.js";
import { events, type Said } from "./sse.js";

const PORT = "7117";
const ANSWER_MS = 5000;
/** A replica says something every second; after so long it is not there any more. */
const SILENCE_MS = 4000;
const OVER = Symbol("over");

/** A key, or what gives one: it is asked before each request, so that keys can be rotated under way. */
export type ApiKey = string | (() => string | Promise<string>);

export interface ServiceOptions {
  apiKey?: ApiKey | undefined;
  /** Another `fetch`: for certificates of clients, proxies and authorities of one's own. */
  fetch?: typeof fetch | undefined;
}

export interface Asked {
  query?: Record<string, string>;
  /** How long one replica has to answer. */
  eachMs?: number;
  /** When all of it has to be over, by the clock. */
  until?: number;
  /** It may be sent again though it may have run: under the same owner it is the same claim. Default: yes. */
  repeats?: boolean;
  signal?: AbortSignal | undefined;
  /** Called for each request that may have run, and of which nobody told the outcome. */
  unheard?: () => void;
}

/** A name as it stands in a path. */
export function encoded(name: string): string {
  if (name === "" || name === "." || name === "..") {
    throw new InvalidError(`name: ${JSON.stringify(name)} cannot stand in the path of a URL: use another name`);
  }
  return encodeURIComponent(name);
}

/** `http://a:7117`, or in the form of the library, for several: `fencepost+http://a:7117,b:7117`. */
export function replicas(urls: string | readonly string[]): string[] {
  const found = (typeof urls === "string" ? [urls] : urls).flatMap((url) => {
    const match = /^(?:fencepost\+)?(https?):\/\/([^/?#@]+)\/?$/.exec(url);
    const [scheme, hosts] = [match?.[1], match?.[2]];
    if (scheme === undefined || hosts === undefined) {
      const shown = url.replace(/^.*@/, "…@");
      throw new InvalidError(`url: ${JSON.stringify(shown)}: write http:// or https://, host and port, and nothing else`);
    }
    return hosts.split(",").map((host) => `${scheme}://${/:\d+$/.test(host) ? host : `${host}:${PORT}`}`);
  });
  if (found.length === 0) throw new InvalidError("url: name at least one replica, such as http://127.0.0.1:7117");
  return found;
}

/** All replicas. Whoever answered last is asked first. */
export class Service {
  #current = 0;
  readonly #fetch: typeof fetch;

  constructor(
    private readonly urls: readonly string[],
    private readonly options: ServiceOptions,
    readonly clock: Clock,
  ) {
    if (typeof options.apiKey === "string") checked(options.apiKey);
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** From now on another replica is asked first. */
  leave(replica: number): void {
    if (this.#current === replica) this.#current = (replica + 1) % this.urls.length;
  }

  /** Asks one replica after another, each for so long, until one has answered. */
  async ask(method: string, path: string, body: Json | null, asked: Asked = {}): Promise<Json> {
    const { repeats = true, eachMs = ANSWER_MS, until = Infinity, signal } = asked;
    const target = asked.query ? `${path}?${new URLSearchParams(asked.query).toString()}` : path;
    let trouble = new UnreachableError("no time was left to ask", false);
    let askedBefore = false;
    for (let turn = 0; turn < this.urls.length; turn++) {
      const left = Math.min(eachMs, until - this.clock.now());
      if (left <= 0) break;
      const replica = this.#current;
      try {
        return await this.#whole(replica, method, target, body, left, signal);
      } catch (error) {
        if (error instanceof UnreachableError && error.outcomeUnknown) asked.unheard?.();
        signal?.throwIfAborted();
        if (!(error instanceof UnreachableError)) {
          if (error instanceof FencepostError) error.askedBefore = askedBefore;
          throw error;
        }
        this.leave(replica);
        trouble = error;
        askedBefore ||= error.outcomeUnknown;
        if (askedBefore && !repeats) break;
      }
    }
    trouble.outcomeUnknown = askedBefore;
    throw trouble;
  }

  /** Opens a stream at whichever replica begins to answer. An answer that is none is an error. */
  async stream(
    method: string,
    path: string,
    body: Json | null,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
    unheard?: () => void,
  ): Promise<{ replica: number; said: AsyncGenerator<Said, void, void> }> {
    let trouble = new UnreachableError("no replica is known", false);
    for (let turn = 0; turn < this.urls.length; turn++) {
      const replica = this.#current;
      const attempt = new Attempt(signal, ANSWER_MS);
      try {
        const more = { ...headers, accept: "text/event-stream" };
        const response = await this.#send(replica, method, path, body, more, attempt);
        if (response.ok && response.body) {
          attempt.settle();
          return { replica, said: closing(events(response.body, SILENCE_MS), attempt) };
        }
        await read(response);
        throw new UnreachableError("an answer that is no stream", true);
      } catch (error) {
        attempt.close();
        if (error instanceof UnreachableError && error.outcomeUnknown) unheard?.();
        signal?.throwIfAborted();
        if (!(error instanceof UnreachableError)) throw error;
        this.leave(replica);
        trouble = error;
      }
    }
    throw trouble;
  }

  async #whole(
    replica: number,
    method: string,
    target: string,
    body: Json | null,
    left: number,
    signal: AbortSignal | undefined,
  ): Promise<Json> {
    const attempt = new Attempt(signal, left);
    try {
      const response = await this.#send(replica, method, target, body, { accept: "application/json" }, attempt);
      return await read(response).catch((error: unknown) => {
        if (error instanceof FencepostError) throw error;
        throw new UnreachableError(`${this.urls[replica]}: the answer broke off`, true);
      });
    } finally {
      attempt.close();
    }
  }

  /** The key, asked for within the time of the request. */
  async #key(replica: number, attempt: Attempt): Promise<string | undefined> {
    const { apiKey } = this.options;
    if (typeof apiKey !== "function") return apiKey === undefined ? undefined : checked(apiKey);
    const given = await attempt.unlessOver((async () => apiKey())()).catch((error: unknown) => {
      if (error instanceof FencepostError) throw error;
      throw Object.assign(new FencepostError(`apiKey: ${told(error)}`, "api_key"), { cause: error });
    });
    if (given !== OVER) return checked(given);
    throw new UnreachableError(`${this.urls[replica]}: not asked, because \`apiKey\` gave no key in time`, false);
  }

  async #send(
    replica: number,
    method: string,
    target: string,
    body: Json | null,
    headers: Record<string, string>,
    attempt: Attempt,
  ): Promise<Response> {
    const key = await this.#key(replica, attempt);
    const all: Record<string, string> = { ...headers };
    if (key !== undefined) all["authorization"] = `Bearer ${key}`;
    if (body !== null) all["content-type"] = "application/json";
    const url = `${this.urls[replica]}${target}`;
    const init: RequestInit = { method, headers: all, signal: attempt.signal, cache: "no-store", redirect: "error" };
    if (body !== null) init.body = JSON.stringify(body);
    try {
      return await this.#fetch(url, init);
    } catch (error) {
      const why = attempt.timedOut ? `no answer within ${Math.round(attempt.ms)} ms` : told(error);
      throw new UnreachableError(`${this.urls[replica]}: ${why}`, !isRefused(error));
    }
  }
}

/** Fit for a header. What is not is never shown: it may be a secret all the same. */
export function checked(key: unknown): string {
  const trimmed = typeof key === "string" ? key.trim() : "";
  if (!/^[\x21-\x7e]+$/.test(trimmed)) throw new InvalidError("apiKey: it is one line of visible ASCII characters");
  return trimmed;
}

/** One request: its time, and the caller's wish to stop. */
class Attempt {
  readonly #controller = new AbortController();
  readonly #stop: () => void;
  readonly #outer: AbortSignal | undefined;
  timedOut = false;

  constructor(
    outer: AbortSignal | undefined,
    readonly ms: number,
  ) {
    this.#outer = outer;
    this.#stop = later(ms, () => {
      this.timedOut = true;
      this.#abort();
    });
    if (outer?.aborted) this.#abort();
    outer?.addEventListener("abort", this.#abort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly #abort = (): void => this.#controller.abort();

  /** What comes of it, unless this ends before. */
  async unlessOver<T>(work: Promise<T>): Promise<T | typeof OVER> {
    let over = (): void => undefined;
    const ended = new Promise<typeof OVER>((resolve) => {
      over = () => resolve(OVER);
      if (this.signal.aborted) over();
      this.signal.addEventListener("abort", over);
    });
    try {
      return await Promise.race([work, ended]);
    } finally {
      this.signal.removeEventListener("abort", over);
    }
  }

  /** It has begun to answer: its time is no limit any more, the caller's wish still is. */
  settle(): void {
    this.#stop();
  }

  /** Ends it, whatever it does. */
  close(): void {
    this.#stop();
    this.#outer?.removeEventListener("abort", this.#abort);
    this.#abort();
  }
}

async function* closing(said: AsyncGenerator<Said, void, void>, attempt: Attempt): AsyncGenerator<Said, void, void> {
  try {
    yield* said;
  } finally {
    attempt.close();
  }
}

async function read(response: Response): Promise<Json> {
  const text = await response.text();
  let data: unknown = null;
  try {
    data = text === "" ? {} : JSON.parse(text);
  } catch {
    // Told below.
  }
  if (response.status === 200) {
    if (isJson(data)) return data;
    throw new UnreachableError("an answer that cannot be read: is this a lock service?", true);
  }
  throw fromProblem(response.status, isJson(data) ? data : {}, response.headers.get("retry-after"));
}

function told(error: unknown): string {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && cause.message) return cause.message;
  const code = isJson(cause) ? cause["code"] : undefined;
  return code !== undefined ? String(code) : error instanceof Error ? error.message : String(error);
}

/** Whether nothing was sent: Node says so, a browser does not. */
function isRefused(error: unknown): boolean {
  const cause: unknown = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "UND_ERR_CONNECT_TIMEOUT";
}
