// The page of one lock: who has it, who waits, who had it before.

import { get, hasPath, lockPath } from './api.js';
import { age, leaseOf, left } from './book.js';
import { endOf, ENDS, histogram, isLoss, legend, timeline } from './charts.js';
import { askToYield, forceRelease } from './dialogs.js';
import { calm, count, h, many, named, put, span } from './dom.js';
import { Bar, kindName } from './rows.js';

const EVERY_MS = 2000;
const TICK_MS = 500;

export class LockPage {
  title;
  #name;
  #book;
  #who;
  #history;
  #asking = false;
  #looking = false;
  #drawn = '';
  #timers = [];
  #bars = [];

  #state = h('p', { class: 'state' });
  #holders = h('ul', { class: 'holders' });
  #line = h('ol', { class: 'line' });
  #nobody = h('p', { class: 'dim', text: 'Nobody waits.' });
  #lineTitle = h('h2', { text: 'In line' });
  #actions = h('div', { class: 'actions' });
  #facts = h('dl', { class: 'facts' });
  #times = h('div', { class: 'chart' });
  #past = h('div', { class: 'chart' });
  #legend = h('div');
  #table = h('tbody');
  #tableBox = h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Past holds' },
    h('table', {}, h('thead', {}, h('tr', {}, ['Holder', 'Token', 'Began', 'Held for', 'End'].map((text) => h('th', { scope: 'col', text })))), this.#table));
  #trouble = h('p', { class: 'notice', hidden: true });
  #heading;
  root;

  constructor(name, book, who) {
    [this.#name, this.#book, this.#who, this.title] = [name, book, who, name];
    this.#heading = h('h1', { tabindex: '-1', class: 'lock-name', text: name });
    this.root = h('section', { class: 'lock-page' },
      h('nav', { class: 'crumbs', 'aria-label': 'Back' }, h('a', { href: '#/' }, '‹ All locks')),
      h('div', { class: 'title' }, h('div', {}, this.#heading, this.#state), this.#actions),
      this.#trouble,
      h('div', { class: 'columns' },
        h('section', { class: 'card' }, h('h2', { text: 'Held by' }), this.#holders, this.#lineTitle, this.#line, this.#nobody),
        h('section', { class: 'card' }, h('h2', { text: 'Hold times' }), this.#facts, this.#times)),
      h('section', { class: 'card' }, h('h2', { text: 'Timeline' }), this.#past, this.#legend),
      h('section', { class: 'card' }, h('h2', { text: 'Past holds' }), this.#tableBox));
    this.#buttons();
  }

  get name() {
    return this.#name;
  }

  mount() {
    this.#heading.focus();
    this.#ask();
    this.update();
    this.#timers = [setInterval(() => this.#ask(), EVERY_MS), setInterval(() => this.#tick(), TICK_MS)];
    this.sizes = new ResizeObserver(() => { this.#drawn = ''; this.#draw(); });
    this.sizes.observe(this.#past);
  }

  unmount() {
    this.#timers.forEach(clearInterval);
    this.sizes?.disconnect();
  }

  seen() {
    return [this.#name];
  }

  get #lock() {
    return this.#book.locks.get(this.#name) ?? { name: this.#name, holders: [], waiters: [], kind: 'lock' };
  }

  async #again() {
    await this.#book.look(this.#name);
    this.update();
    this.#ask();
    return this.#lock;
  }

  force() {
    if (this.#who.may('admin', this.#name) && this.#lock.holders.length) forceRelease(this.#lock, () => this.#again(), () => this.#again());
  }

  yield() {
    if (this.#who.may('admin', this.#name) && this.#who.may('acquire', this.#name) && this.#lock.holders.length) askToYield(this.#lock, () => this.#again());
  }

  #buttons() {
    if (!this.#who.may('admin', this.#name)) return;
    const mayAsk = this.#who.may('acquire', this.#name);
    this.#actions.append(
      h('button', { type: 'button', id: 'ask', 'aria-keyshortcuts': 'a', title: mayAsk ? 'a' : 'This key lacks the right acquire here', disabled: !mayAsk, onclick: () => this.yield() }, 'Ask to yield…'),
      h('button', { type: 'button', id: 'force', class: 'danger', 'aria-keyshortcuts': 'f', title: 'f', onclick: () => this.force() }, 'Force release…'));
  }

  async #ask() {
    if (this.#asking || document.hidden) return;
    this.#asking = true;
    try {
      if (!hasPath(this.#name)) throw new Error('its name has no place in a path');
      this.#history = await get(lockPath(this.#name, '/history'));
      this.#trouble.hidden = true;
    } catch (problem) {
      put(this.#trouble, `The past of this lock cannot be read now: ${problem.message}`);
      this.#trouble.hidden = false;
    }
    this.#asking = false;
    this.#draw();
    if (!this.#book.locks.has(this.#name)) await this.#book.look(this.#name);
  }

  update() {
    const lock = this.#lock;
    const held = lock.holders.length;
    const state = held ? `${kindName(lock)} · held${held > 1 ? ` by ${held}` : ''}` : `${kindName(lock)} · free`;
    put(this.#state, lock.waiters.length ? `${state} · ${many(lock.waiters.length, 'waits', 'wait')}` : state);
    this.#state.dataset.state = held ? 'held' : 'free';
    for (const button of this.#actions.children) if (button.id === 'force' || this.#who.may('acquire', this.#name)) button.disabled = !held;
    const key = JSON.stringify([lock.holders.map((x) => [x.token, x.label, x.payload]), lock.waiters.map((x) => [x.label, x.actor])]);
    if (key !== this.key) {
      this.key = key;
      this.#bars = lock.holders.map(() => [new Bar(), h('span', { class: 'num' })]);
      this.#holders.replaceChildren(...(held ? lock.holders.map((holder, at) => this.#holder(holder, at)) : [h('li', { class: 'dim', text: 'Nobody. It is free.' })]));
      put(this.#lineTitle, lock.waiters.length ? `In line (${lock.waiters.length})` : 'In line');
      this.#nobody.hidden = lock.waiters.length > 0;
      this.#line.replaceChildren(...lock.waiters.map((waiter) => h('li', {},
        h('span', { class: 'who', text: named(waiter.label) }), waiter.shared && h('span', { class: 'tag', text: 'reader' }),
        h('span', { class: 'num dim' }))));
    }
    this.#tick();
  }

  #holder(holder, at) {
    const [bar, held] = this.#bars[at];
    const facts = [['Token', holder.token ?? 'none: another library'], ['Held for', held], ['Time left', bar.root]];
    if (holder.payload !== undefined) facts.push(['Publishes', holder.payload]);
    if (holder.actor) facts.push(['Actor', holder.actor]);
    return h('li', {}, h('p', { class: 'who' }, named(holder.label), holder.shared && h('span', { class: 'tag', text: 'reader' })),
      h('dl', {}, facts.map(([name, value]) => [h('dt', { text: name }), h('dd', { class: 'num' }, value)])));
  }

  #tick() {
    const lock = this.#lock;
    lock.holders.forEach((holder, at) => {
      this.#bars[at]?.[0].show(holder);
      if (this.#bars[at]) put(this.#bars[at][1], holder.since === undefined ? '–' : calm(age(holder)));
    });
    lock.waiters.forEach((waiter, at) => {
      const place = this.#line.children[at]?.lastChild;
      if (place) put(place, calm(performance.now() - waiter.since));
    });
    if (left(leaseOf(lock)) < 0 && !this.#looking && !document.hidden) this.#lookAgain();
  }

  async #lookAgain() {
    this.#looking = true;
    await this.#book.look(this.#name);
    this.#looking = false;
    if (this.root.isConnected) this.update();
  }

  #draw() {
    const history = this.#history;
    if (!history || !this.root.isConnected) return;
    const over = history.holds.filter((hold) => hold.end);
    const sorted = over.map((hold) => hold.held_ms).sort((a, b) => a - b);
    const median = sorted.length ? span(sorted[Math.floor((sorted.length - 1) / 2)]) : '–';
    const longest = sorted.length ? span(sorted.at(-1)) : '–';
    // The others are of all holds, these of those that are listed.
    const of = history.grants > history.holds.length ? ` of the last ${sorted.length}` : '';
    const facts = [['Holds', count(history.grants)], ['Losses', count(history.losses)], [`Median${of}`, median], [`Longest${of}`, longest]];
    this.#facts.replaceChildren(...facts.map(([name, value]) => h('div', { class: name === 'Losses' && history.losses ? 'bad' : '' }, h('dt', { text: name }), h('dd', { class: 'num', text: value }))));
    const ended = history.hold_times.some(({ count: n }) => n);
    const drawn = JSON.stringify([history.hold_times, history.holds.map((hold) => [hold.token, hold.end?.how])]);
    if (drawn !== this.#drawn) {
      this.#drawn = drawn;
      this.#times.replaceChildren(ended ? histogram(history.hold_times, Math.max(240, this.#times.clientWidth)) : h('p', { class: 'dim', text: 'No hold has ended yet.' }));
      this.#legend.replaceChildren(history.holds.length ? legend(history.holds) : '');
      this.#rows(history.holds);
    }
    this.#past.replaceChildren(history.holds.length ? timeline(history.holds, Math.max(240, this.#past.clientWidth)) : h('p', { class: 'dim', text: 'This replica has seen nobody hold it since it started.' }));
    // Only times go on: whoever reads the table is not disturbed.
    history.holds.forEach((hold, at) => {
      const cells = this.#table.children[at].children;
      put(cells[2], `${calm(hold.began_ago_ms)} ago`);
      put(cells[3], hold.end ? span(hold.held_ms) : calm(hold.held_ms));
    });
  }

  #rows(holds) {
    this.#tableBox.parentElement.hidden = !holds.length;
    this.#table.replaceChildren(...holds.map((hold) => {
      const { by, why } = hold.end ?? {};
      const end = ENDS[endOf(hold)] + (by ? ` by ${by}` : '') + (why ? `: ${why}` : '');
      return h('tr', { class: isLoss(hold) ? 'bad' : '' }, h('td', { class: 'who', text: named(hold.label) }), h('td', { class: 'num', text: hold.token }),
        h('td', { class: 'num' }), h('td', { class: 'num' }), h('td', { text: end }));
    }));
  }
}
