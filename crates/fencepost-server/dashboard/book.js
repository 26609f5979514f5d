// What is known of all locks. Events tell at once what happens at this replica; pages of the listing, one at a time, tell
// the rest: locks that are taken past it, by the library or through another replica.

import { follow, get, hasPath, lockPath } from './api.js';

/** The service's largest page would hold the browser up for a moment each time; this does not. */
const PAGE = 500;
/** More are not read: a search by prefix brings others. */
export const MOST = 50000;
const TICK_MS = 2000;
const SLOW_TICKS = 2;
/** Locks that are asked for one by one after an event, at a time. */
const LOOKS = 12;
/** So many wait for their turn to be asked for; of more, the rest comes with its page. */
const DIRTY = 400;
/** So many change while nobody looks: then all are read when somebody does. */
const UNSEEN = 1000;
/** A lock that came free stays in sight for so long. */
export const LINGER_MS = 5000;
/** Events of so many prefixes are followed: browsers open six connections to a host. */
const STREAMS = 3;
/** What ttls people choose, to guess the whole of a lease from what is left of it. */
const USUAL_MS = [1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 300, 600, 900, 1800, 3600].map((seconds) => seconds * 1000);

const now = () => performance.now();

/** `name/permit#3` is a permit of `name`; `name/permit#line` is its line. */
const PERMIT = /\/permit#(\d+|line)$/;

export function kindOf(lock) {
  if (PERMIT.test(lock.name)) return lock.name.endsWith('#line') ? 'line' : 'permit';
  if (lock.holders.some((holder) => holder.payload !== undefined)) return 'leader';
  return lock.holders.some((holder) => holder.shared) ? 'shared' : 'lock';
}

const ends = (holder) => holder?.until ?? Infinity;

/** Of several holders the one that ends first: what the bar shows. */
export const leaseOf = ({ holders }) => holders.reduce((first, holder) => (ends(holder) < ends(first) ? holder : first), holders[0]);
export const left = (holder) => (holder?.until === undefined ? undefined : holder.until - now());
export const age = (holder) => (holder?.since === undefined ? undefined : now() - holder.since);
/** How much of a lease is left, from 0 to 1. */
export const part = (holder) => Math.max(0, Math.min(1, left(holder) / holder.whole));

export class Book extends EventTarget {
  locks = new Map();
  nodes = undefined;
  deadlocks = [];
  /** Grows when a lock comes, goes, or changes its holders or its line; not when it is renewed. */
  version = 0;
  /** Everything has been read once. */
  whole = false;
  /** What names in the table start with. */
  prefix = '';
  /** There are more than were read. */
  cut = false;
  /** Why the last listing failed. */
  problem = undefined;
  heardAt = undefined;

  #who;
  #dirty = new Set();
  /** More changed unseen than was kept. */
  #missed = false;
  #reading = false;
  #sweep = { scope: 0, after: '' };
  #seen = () => [];
  #stop = new AbortController();
  #streams = new Map();
  #looking = false;
  #counts = { version: -1 };
  #run = 0;

  constructor(who) {
    super();
    this.#who = who;
    document.addEventListener('visibilitychange', () => this.#shown());
  }

  /** What is read: all that the key may see, or of too much only what is searched for. */
  #scopes() {
    const [seen, prefix] = [this.#who.observe, this.cut ? this.prefix : ''];
    if (seen.some((allowed) => prefix.startsWith(allowed))) return [prefix];
    return seen.filter((allowed) => allowed.startsWith(prefix));
  }

  start(seen) {
    this.#seen = seen;
    this.#listen();
    this.#readAll();
    this.#tick(0);
  }

  search(prefix) {
    this.prefix = prefix;
    this.version += 1;
    if (this.cut) {
      for (const name of this.locks.keys()) if (!name.startsWith(prefix)) this.#forget(name);
      this.whole = false;
      this.#readAll();
    }
    this.#changed();
  }

  /** Streams for these prefixes; those that are open already stay. */
  #listen() {
    const wanted = this.#who.observe.includes('') ? [''] : this.#who.observe.slice(0, STREAMS);
    for (const prefix of wanted) {
      if (this.#streams.has(prefix)) continue;
      this.#streams.set(prefix, undefined);
      const linked = (on) => {
        this.#streams.set(prefix, on);
        if (on) this.#dirtyAll();
        this.dispatchEvent(new CustomEvent('link'));
      };
      follow(prefix, this.#stop.signal, (kind, data) => this.#told(kind, data), linked);
    }
  }

  /** Nobody is known to be away. */
  get linked() {
    return ![...this.#streams.values()].includes(false);
  }

  /** Every page once, so that any order can be shown. */
  async #readAll() {
    const run = ++this.#run;
    this.#reading = true;
    let [read, cut, failed] = [0, false, false];
    for (const scope of this.#scopes()) {
      let after = '';
      do {
        const page = await this.#page(scope, after, run);
        if (run !== this.#run) return;
        if (!page) {
          failed = true;
          break;
        }
        read += page.locks.length;
        after = page.next ?? '';
        cut ||= read >= MOST && after !== '';
      } while (after && !cut);
    }
    this.cut ||= cut;
    this.whole = !failed;
    this.#reading = false;
    this.#changed();
  }

  /** Reads one page and takes it over: what is missing in it is gone. */
  async #page(scope, after, run, limit = PAGE) {
    const query = new URLSearchParams({ prefix: scope, limit });
    if (after) query.set('after', after);
    const asked = now();
    try {
      const page = await get(`/v1/locks?${query}`);
      if (run !== this.#run) return undefined;
      const names = new Set(page.locks.map((lock) => lock.name));
      for (const [name, lock] of this.locks) {
        // Names are ordered by their bytes, which is the order here below the surrogates; the others stay.
        if (name.startsWith(scope) && name > after && (!page.next || name <= page.next) && !names.has(name)
          && lock.asked < asked && /^[\0-\ud7ff]*$/.test(name)) this.#forget(name);
      }
      page.locks.forEach((lock) => this.#take(lock, asked));
      this.#healthy();
      return page;
    } catch (problem) {
      this.#failed(problem);
      return undefined;
    }
  }

  #forget(name) {
    this.locks.delete(name);
    this.version += 1;
  }

  #healthy() {
    this.problem = undefined;
    this.heardAt = now();
    this.#changed();
  }

  #failed(problem) {
    this.problem = problem;
    this.#changed();
    if (problem.status === 401) this.dispatchEvent(new CustomEvent('unknown'));
  }

  /** A lock as the store had it when it was asked, in times of this page. An answer that was overtaken says nothing. */
  #take(state, asked) {
    const [at, before] = [now(), this.locks.get(state.name)];
    if (before?.asked > asked) return;
    const holders = state.holders.map((holder) => {
      const known = before?.holders.find((other) => other.token === holder.token);
      const since = holder.held_ms === undefined ? known?.since : at - holder.held_ms;
      const until = holder.expires_in_ms === undefined ? undefined : at + holder.expires_in_ms;
      return { ...holder, since: known?.since ?? since, until, whole: whole(holder, known) };
    });
    const waiters = state.waiters.map((waiter) => ({ ...waiter, since: at - waiter.waited_ms }));
    const freed = before?.holders.length && !holders.length ? at : holders.length ? undefined : before?.freed;
    const lock = { name: state.name, holders, waiters, last: state.last_token, freed, asked };
    lock.kind = holders.length || !before ? kindOf(lock) : before.kind;
    if (!before || !same(lock.holders, before.holders) || !same(lock.waiters, before.waiters)) this.version += 1;
    this.locks.set(state.name, lock);
  }

  #told(kind, data) {
    if (kind === 'missed') return this.#dirtyAll();
    if (kind === 'problem' || kind === 'asked' || kind === 'releasing') return;
    const lock = this.locks.get(data.name);
    if (!lock && this.cut && !data.name.startsWith(this.prefix)) return;
    if (kind === 'renewed' && lock?.holders.length === 1) {
      lock.holders[0].until = now() + data.remaining_ms;
      lock.holders[0].whole = Math.max(lock.holders[0].whole, data.remaining_ms);
      lock.asked = now();
      return;
    }
    this.dispatchEvent(new CustomEvent('event', { detail: { kind, data } }));
    if (!this.#missed) this.#dirty.add(data.name);
    if (this.#dirty.size > UNSEEN) {
      this.#missed = document.hidden;
      this.#dirty = new Set([...this.#dirty].slice(0, this.#missed ? 0 : DIRTY));
    }
    this.#look();
  }

  /** Somebody looks again. */
  #shown() {
    if (document.hidden) return;
    if (this.#missed) this.#dirtyAll();
    this.#missed = false;
    if (this.#dirty.size) this.#look();
  }

  #dirtyAll() {
    if (this.whole) this.#readAll();
  }

  /** Asks again for what changed, a few at a time: first for what is in sight. */
  async #look() {
    if (this.#looking || document.hidden) return;
    this.#looking = true;
    // Several events of one act come together.
    await new Promise((resolve) => { setTimeout(resolve, 60); });
    const seen = new Set(this.#seen());
    const names = [...this.#dirty];
    names.sort((one, other) => seen.has(other) - seen.has(one));
    this.#dirty = new Set(names.slice(LOOKS, LOOKS + DIRTY));
    await Promise.all(names.slice(0, LOOKS).map((name) => this.look(name)));
    this.#looking = false;
    if (this.#dirty.size) this.#look();
  }

  /** One lock, now. */
  async look(name) {
    if (!hasPath(name)) return;
    const asked = now();
    try {
      const state = await get(lockPath(name));
      this.#take(state, asked);
      this.#healthy();
    } catch (problem) {
      this.#failed(problem);
    }
  }

  async #tick(number) {
    if (this.#stop.signal.aborted) return;
    const started = now();
    if (!document.hidden) {
      await Promise.all([
        this.whole ? this.#sweepOn() : !this.#reading && this.#readAll(),
        this.whole && this.#contended(),
        number % SLOW_TICKS === 0 && this.#health(),
        this.#overdue(),
        this.#dirty.size && this.#look(),
      ]);
    }
    setTimeout(() => this.#tick(number + 1), Math.max(200, TICK_MS - (now() - started)));
  }

  /** The next page of all locks; after the last comes the first. */
  async #sweepOn() {
    const [scopes, run] = [this.#scopes(), this.#run];
    const at = this.#sweep.scope % Math.max(1, scopes.length);
    if (!scopes.length) return;
    const page = await this.#page(scopes[at], this.#sweep.after, run);
    this.#sweep = page?.next ? { scope: at, after: page.next } : { scope: at + 1, after: '' };
  }

  /** Lines move often, and those who wait past this replica are not told. */
  async #contended() {
    for (const scope of this.#scopes().slice(0, STREAMS)) {
      const asked = now();
      try {
        const page = await get(`/v1/locks?${new URLSearchParams({ prefix: scope, limit: 100, contended: true })}`);
        page.locks.forEach((lock) => this.#take(lock, asked));
      } catch (problem) {
        this.#failed(problem);
      }
    }
  }

  /** A lease that is over here may have been renewed elsewhere. */
  async #overdue() {
    const names = [];
    for (const name of this.#seen()) {
      if (left(leaseOf(this.locks.get(name) ?? { holders: [] })) < 500) names.push(name);
    }
    await Promise.all(names.slice(0, LOOKS).map((name) => this.look(name)));
  }

  async #health() {
    const nodes = get('/v1/nodes').catch(() => undefined);
    const deadlocks = get('/v1/deadlocks').catch(() => undefined);
    this.nodes = (await nodes) ?? this.nodes;
    this.deadlocks = (await deadlocks)?.deadlocks ?? this.deadlocks;
    this.dispatchEvent(new CustomEvent('health'));
  }

  #changed() {
    this.dispatchEvent(new CustomEvent('change'));
  }

  /** Of the names that are searched for: how many are held, contended, free, and wait. And who leads, of all. */
  get counts() {
    if (this.#counts.version === this.version) return this.#counts;
    const counts = { version: this.version, all: 0, held: 0, used: 0, contended: 0, free: 0, waiters: 0, leaders: [] };
    for (const lock of this.locks.values()) {
      if (lock.kind === 'leader') counts.leaders.push(lock.name);
      if (!lock.name.startsWith(this.prefix)) continue;
      counts.all += 1;
      counts[lock.holders.length ? 'held' : 'free'] += 1;
      counts.used += lock.holders.length > 0 || lock.waiters.length > 0;
      counts.contended += lock.waiters.length > 0;
      counts.waiters += lock.waiters.length;
    }
    counts.leaders.sort();
    this.#counts = counts;
    return counts;
  }
}

/** Whether these are the same holders, or the same line. */
const same = (some, others) => some.length === others.length
  && some.every((one, at) => one.token === others[at].token && one.label === others[at].label && one.payload === others[at].payload);

/** The whole of a lease: the most that was ever left of it, or a guess by what is usual. */
function whole(holder, known) {
  const rest = holder.expires_in_ms ?? 0;
  if (known) return Math.max(known.whole, rest);
  const since = (holder.held_ms ?? Infinity) + rest;
  // Not renewed yet: then both together are the whole.
  const first = USUAL_MS.find((ttl) => Math.abs(ttl - since) <= 150);
  const usual = first ?? USUAL_MS.find((ttl) => ttl >= rest - 50) ?? rest;
  return Math.max(1, Math.min(usual, since));
}
