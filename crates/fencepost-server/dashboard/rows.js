// One line of the table: made once, shown for many locks.

import { age, leaseOf, left, part } from './book.js';
import { calm, count, h, named, put } from './dom.js';

const KINDS = { lock: 'Lock', shared: 'Readers', permit: 'Permit', line: 'Line', leader: 'Leader' };
/** A holder renews at a third of its ttl: with less than half left it is late, with less than a fifth nearly gone. */
const [LATE, GONE] = [0.5, 0.2];

export const kindName = (lock) => KINDS[lock.kind];
export const lockHash = (name) => `#/lock/${encodeURIComponent(name)}`;

/** Who has a lock, in words. */
export function holderText(lock) {
  const [first, ...more] = lock.holders;
  if (!first) return '';
  return more.length ? `${lock.holders.length} readers: ${lock.holders.map((holder) => named(holder.label)).join(', ')}`
    : named(first.label);
}

/** The same beside the kind, which says that they are readers. */
const holderCell = (lock) => (lock.holders.length > 1 ? holderText(lock).replace(' readers', '') : holderText(lock) || 'free');

/** What is left of a lease, as a bar and in words. */
export class Bar {
  #fill = h('i');
  #text = h('span', { class: 'num' });
  root = h('span', { class: 'left' }, h('b', { 'aria-hidden': 'true' }, this.#fill), this.#text);

  show(holder) {
    const [rest, on] = [left(holder), holder?.until !== undefined];
    this.root.hidden = !holder;
    if (!holder) return;
    const share = on ? part(holder) : 1;
    this.#fill.style.transform = `scaleX(${share.toFixed(4)})`;
    this.root.dataset.state = !on ? 'none' : rest <= 0 ? 'over' : share < GONE || (rest < 1000 && holder.whole > 3000) ? 'gone' : share < LATE ? 'late' : 'well';
    put(this.#text, !on ? 'no end' : rest <= 0 ? 'over' : calm(rest));
  }
}

export class Row {
  index = -1;
  lock = undefined;
  #link = h('a', { tabindex: '-1' });
  #kind = h('span', { class: 'kind', role: 'gridcell' });
  #holder = h('span', { class: 'holder', role: 'gridcell' });
  #token = h('span', { class: 'token num', role: 'gridcell' });
  #age = h('span', { class: 'age num', role: 'gridcell' });
  #bar = new Bar();
  #waiting = h('b', { class: 'chip' });
  #line = h('span', { class: 'labels' });
  root = h('div', { class: 'row', role: 'row', tabindex: '-1' },
    h('span', { class: 'name', role: 'gridcell' }, this.#link),
    this.#kind, this.#holder, this.#token, this.#age,
    h('span', { class: 'rest', role: 'gridcell' }, this.#bar.root),
    h('span', { class: 'waiters', role: 'gridcell' }, this.#waiting, this.#line));

  show(lock, index) {
    if (this.index !== index) {
      this.index = index;
      this.root.setAttribute('aria-rowindex', index + 2);
      this.root.classList.toggle('odd', index % 2 === 1);
    }
    if (this.lock !== lock) {
      if (this.lock?.name !== lock.name) {
        put(this.#link, lock.name);
        this.#link.title = lock.name;
        this.#link.href = lockHash(lock.name);
        this.root.dataset.name = lock.name;
      }
      this.lock = lock;
      put(this.#kind, kindName(lock));
      this.#kind.dataset.kind = lock.kind;
      this.root.classList.toggle('free', !lock.holders.length);
      put(this.#holder, holderCell(lock));
      this.#holder.title = holderText(lock);
      put(this.#token, lock.holders[0]?.token ?? '');
      const waiting = lock.waiters.length;
      this.#waiting.hidden = !waiting;
      put(this.#waiting, waiting ? count(waiting) : '');
      const labels = lock.waiters.slice(0, 6).map((waiter) => named(waiter.label)).join(' › ');
      put(this.#line, labels);
      this.#line.title = labels;
    }
    this.tick();
  }

  /** Time goes on. */
  tick() {
    const [first] = this.lock.holders;
    put(this.#age, first?.since === undefined ? '' : calm(age(first)));
    this.#bar.show(leaseOf(this.lock));
  }
}
