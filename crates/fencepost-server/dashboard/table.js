// The table of locks. Of ten thousand, only those in sight are in the document.

import { LINGER_MS, MOST, leaseOf } from './book.js';
import { count, h, many, put, say } from './dom.js';
import { Row, holderText, kindName, lockHash } from './rows.js';

const SPARE = 8;
const NARROW = matchMedia('(max-width: 46rem)');
/** As in views.css. */
const rowHeight = () => (NARROW.matches ? 58 : 28);
const REFRESH_MS = 300;
const TICK_MS = 500;
const STILL_MS = 150;

const number = (value, missing) => (value === undefined || Number.isNaN(value) ? missing : value);
const COLUMNS = [
  { id: 'name', title: 'Name', of: (lock) => lock.name },
  { id: 'kind', title: 'Kind', of: (lock) => kindName(lock) },
  { id: 'holder', title: 'Holder', of: (lock) => holderText(lock).toLowerCase() || '\uffff' },
  { id: 'token', title: 'Token', of: (lock) => number(Number(lock.holders[0]?.token?.replace('r', '')), -1), falls: true },
  { id: 'age', title: 'Held for', of: (lock) => number(-lock.holders[0]?.since, -Infinity), falls: true },
  { id: 'left', title: 'Time left', of: (lock) => number(leaseOf(lock)?.until, Infinity), moves: true },
  { id: 'waiters', title: 'In line', of: (lock) => lock.waiters.length, falls: true },
];
const FILTERS = [
  { id: 'used', title: 'In use', is: (lock, at) => lock.holders.length || lock.waiters.length || at - lock.freed < LINGER_MS },
  { id: 'contended', title: 'Contended', is: (lock) => lock.waiters.length > 0 },
  { id: 'free', title: 'Free', is: (lock) => !lock.holders.length },
  { id: 'all', title: 'All', is: () => true },
];

export class Table {
  title = 'Locks';
  #book;
  #shown = [];
  #rows = [];
  #sort = { column: COLUMNS[0], falls: false };
  #filter = FILTERS[0];
  #cursor = undefined;
  #refreshAt = 0;
  /** What the rows are in order for. */
  #orderOf = '';
  #timers = [];
  #still = 0;
  #frame = 0;
  #searching = 0;

  #search = h('input', {
    type: 'search', id: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: 'Name starts with…',
    'aria-label': 'Show names that start with', 'aria-keyshortcuts': '/', oninput: () => this.#searchSoon(),
  });
  #chips = FILTERS.map((filter) => h('button', {
    type: 'button', class: 'seg', 'data-filter': filter.id, 'aria-pressed': 'false', onclick: () => this.#show(filter),
  }, filter.title, h('span', { class: 'n' })));
  #order = h('select', { 'aria-label': 'Sort by', class: 'order', onchange: () => this.#sortBy(COLUMNS[this.#order.selectedIndex]) },
    COLUMNS.map((column) => h('option', { text: `By ${column.title.toLowerCase()}` })));
  #summary = h('p', { class: 'summary' });
  #heads = COLUMNS.map((column) => h('span', { role: 'columnheader', class: column.id },
    h('button', { type: 'button', onclick: () => this.#sortBy(column) }, column.title, h('i', { 'aria-hidden': 'true' }))));
  #space = h('div', { class: 'space', role: 'presentation' });
  #body = h('div', { class: 'body', role: 'rowgroup', tabindex: '-1' }, this.#space);
  #empty = h('div', { class: 'empty', hidden: true });
  #grid = h('div', { class: 'grid', role: 'grid', 'aria-label': 'Locks' },
    h('div', { role: 'rowgroup', class: 'head' }, h('div', { role: 'row', class: 'row', 'aria-rowindex': '1' }, this.#heads)),
    this.#body);
  root = h('section', { class: 'locks' },
    h('h1', { class: 'sr', text: 'Locks' }),
    h('div', { class: 'tools' }, h('div', { class: 'find' }, this.#search), h('div', { class: 'segs', role: 'group', 'aria-label': 'Which locks' }, this.#chips),
      this.#order, this.#summary),
    this.#grid, this.#empty);

  constructor(book) {
    this.#book = book;
    this.#body.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    this.#body.addEventListener('keydown', (event) => this.#key(event));
    this.#body.addEventListener('click', (event) => this.#click(event));
    this.#body.addEventListener('focusin', (event) => { this.#cursor = event.target.closest('.row')?.dataset.name ?? this.#cursor; });
    new ResizeObserver(() => this.#render()).observe(this.#body);
    NARROW.addEventListener('change', () => this.#render());
    this.#marks();
  }

  /** The names in sight. */
  seen() {
    if (!this.root.isConnected) return [];
    const [first, last] = this.#range();
    return this.#shown.slice(first, last);
  }

  mount() {
    this.#refresh();
    this.#timers = [setInterval(() => this.#tick(), TICK_MS)];
    if (this.#cursor !== undefined) this.#focus(this.#indexOf(this.#cursor));
  }

  unmount() {
    this.#timers.forEach(clearInterval);
  }

  focusSearch() {
    this.#search.focus();
    this.#search.select();
  }

  /** Something changed: the table follows, a few times a second at most. */
  update() {
    if (this.#refreshAt) return;
    this.#refreshAt = setTimeout(() => {
      this.#refreshAt = 0;
      if (this.root.isConnected) this.#refresh();
    }, REFRESH_MS);
  }

  /** Rows change their locks with the next frame; their bars do not glide meanwhile. */
  #scrolled() {
    this.#body.classList.add('moving');
    clearTimeout(this.#still);
    this.#still = setTimeout(() => this.#body.classList.remove('moving'), STILL_MS);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#render();
    });
  }

  #searchSoon() {
    clearTimeout(this.#searching);
    this.#searching = setTimeout(() => {
      this.#book.search(this.#search.value);
      this.#body.scrollTop = 0;
    }, 120);
  }

  #show(filter) {
    this.#filter = filter;
    this.#body.scrollTop = 0;
    this.#marks();
    this.#refresh();
    say(`${filter.title}: ${many(this.#shown.length, 'lock')}`);
  }

  #sortBy(column) {
    const again = this.#sort.column === column;
    this.#sort = { column, falls: again ? !this.#sort.falls : column.falls ?? false };
    this.#marks();
    this.#refresh();
    say(`Sorted by ${column.title}, ${this.#sort.falls ? 'largest' : 'smallest'} first`);
  }

  #marks() {
    const { column, falls } = this.#sort;
    COLUMNS.forEach((other, at) => {
      this.#heads[at].setAttribute('aria-sort', other !== column ? 'none' : falls ? 'descending' : 'ascending');
      put(this.#heads[at].querySelector('i'), other !== column ? '' : falls ? '▾' : '▴');
    });
    this.#order.selectedIndex = COLUMNS.indexOf(column);
    FILTERS.forEach((filter, at) => this.#chips[at].setAttribute('aria-pressed', filter === this.#filter));
  }

  #refresh() {
    const [{ column, falls }, { counts, whole, version }] = [this.#sort, this.#book];
    const orderOf = [version, column.id, falls, this.#filter.id, whole].join();
    if (orderOf !== this.#orderOf || column.moves) this.#arrange();
    this.#orderOf = orderOf;
    FILTERS.forEach((filter, index) => put(this.#chips[index].lastChild, count(counts[filter.id])));
    put(this.#summary, `${many(counts.held, 'lock')} held · ${count(counts.waiters)} waiting${!whole ? ' · reading…' : this.#book.cut ? ` · of the first ${count(MOST)}: search for others` : ''}`);
    this.#grid.classList.toggle('stale', this.#book.problem !== undefined);
    this.#render();
    this.#emptiness();
  }

  /** Which locks, in which order. */
  #arrange() {
    const [at, { column, falls }, wanted] = [performance.now(), this.#sort, []];
    for (const lock of this.#book.locks.values()) {
      if (lock.name.startsWith(this.#book.prefix) && this.#filter.is(lock, at)) wanted.push([column.of(lock), lock.name]);
    }
    const way = falls ? -1 : 1;
    wanted.sort(([one, first], [other, second]) => (one === other ? (first < second ? -1 : 1) : one < other ? -way : way));
    this.#shown = wanted.map(([, name]) => name);
  }

  #emptiness() {
    const none = !this.#shown.length;
    this.#empty.hidden = !none;
    this.#grid.classList.toggle('none', none);
    if (!none) return;
    const text = !this.#book.whole ? 'Reading the locks…'
      : this.#search.value ? `No lock ${this.#filter.id === 'all' ? '' : `(${this.#filter.title.toLowerCase()}) `}whose name starts with “${this.#search.value}”.`
        : { used: 'Nothing is held.', contended: 'Nobody waits.', free: 'No free lock is remembered.', all: 'No lock yet.' }[this.#filter.id];
    const hint = this.#book.whole && !this.#search.value && this.#filter.id === 'used'
      ? 'A lock shows here as soon as somebody takes it, through this service or past it. Free ones are under All.' : '';
    this.#empty.replaceChildren(h('p', { text }), hint && h('p', { class: 'dim', text: hint }));
  }

  #range() {
    const height = rowHeight();
    const first = Math.max(0, Math.floor(this.#body.scrollTop / height) - SPARE);
    return [first, Math.min(this.#shown.length, first + Math.ceil(this.#body.clientHeight / height) + 2 * SPARE)];
  }

  #render() {
    const [height, inside] = [rowHeight(), this.#body.contains(document.activeElement)];
    this.#space.style.height = `${this.#shown.length * height}px`;
    this.#grid.setAttribute('aria-rowcount', this.#shown.length + 1);
    const [first, last] = this.#range();
    while (this.#rows.length < last - first) {
      const row = new Row();
      this.#rows.push(row);
      this.#space.append(row.root);
    }
    // A row stays with its place: scrolling by one moves one row.
    const used = new Set();
    for (let index = first; index < last; index += 1) {
      const row = this.#rows[index % this.#rows.length];
      const lock = this.#book.locks.get(this.#shown[index]);
      if (!lock) continue;
      used.add(row);
      row.root.hidden = false;
      row.root.style.transform = `translateY(${index * height}px)`;
      row.show(lock, index);
      row.root.tabIndex = lock.name === this.#cursor || (this.#cursor === undefined && index === 0) ? 0 : -1;
    }
    for (const row of this.#rows) if (!used.has(row)) row.root.hidden = true;
    // Tab must get into the table, also when the row that had focus is out of sight.
    const inSight = [...used];
    if (inSight.length && !inSight.some((row) => row.root.tabIndex === 0)) inSight[0].root.tabIndex = 0;
    if (inside) this.#follow(inSight);
  }

  /** Focus stays with its lock, wherever that is shown now; what is out of sight keeps the keys. */
  #follow(inSight) {
    const row = inSight.find(({ lock }) => lock.name === this.#cursor)?.root;
    if (row ? !row.contains(document.activeElement) : document.activeElement !== this.#body) (row ?? this.#body).focus({ preventScroll: true });
  }

  #tick() {
    const at = performance.now();
    const inSight = this.#rows.filter((row) => !row.root.hidden);
    if (inSight.some((row) => !this.#filter.is(row.lock, at))) {
      this.#orderOf = '';
      this.#refresh();
      return;
    }
    inSight.forEach((row) => row.tick());
  }

  #indexOf(name) {
    return this.#shown.indexOf(name);
  }

  #focus(index) {
    if (!this.#shown.length) return;
    const at = Math.max(0, Math.min(this.#shown.length - 1, index));
    const [height, top] = [rowHeight(), this.#body.scrollTop];
    this.#cursor = this.#shown[at];
    if (at * height < top) this.#body.scrollTop = at * height;
    else if ((at + 1) * height > top + this.#body.clientHeight) this.#body.scrollTop = (at + 1) * height - this.#body.clientHeight;
    this.#render();
    this.#rows[at % this.#rows.length].root.focus({ preventScroll: true });
  }

  /** From anywhere on the page: to the rows. */
  focusRows() {
    this.#focus(Math.max(0, this.#indexOf(this.#cursor)));
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.#indexOf(this.#cursor);
    const page = Math.max(1, Math.floor(this.#body.clientHeight / rowHeight()) - 1);
    const to = {
      ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, PageDown: at + page, PageUp: at - page,
      Home: 0, End: this.#shown.length - 1,
    }[event.key];
    if (to !== undefined) this.#focus(to);
    else if ((event.key === 'Enter' || event.key === ' ') && at >= 0) location.hash = lockHash(this.#cursor);
    else return;
    event.preventDefault();
  }

  #click(event) {
    const row = event.target.closest('.row');
    if (!row || event.target.closest('a') || String(getSelection())) return;
    location.hash = lockHash(row.dataset.name);
  }
}
