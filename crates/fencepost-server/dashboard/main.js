// Puts the page together: who looks, which view, what is wrong.

import * as theme from './theme.js';
import { get, key } from './api.js';
import { Book } from './book.js';
import { Deadlocks } from './deadlocks.js';
import { askForKey, hasSingleKeys, help } from './dialogs.js';
import { calm, h, many, put, say } from './dom.js';
import { Elections } from './elections.js';
import { LockPage } from './lock.js';
import { Nodes, isQuarantined, isWell, quorum, voted } from './nodes.js';
import { Table } from './table.js';

/** Why a key is asked for again. */
const WHY = 'fencepost-why';
const main = document.getElementById('main');
const asksWho = document.documentElement.dataset.asksWho === 'yes';
const byId = (id) => document.getElementById(id);

/** Rights as the page needs them. */
function rights({ principal, allow }) {
  const scopes = allow.map((scope) => scope.split(/:(.*)/s)).map(([verb, prefix]) => [verb, prefix === '*' ? '' : prefix]);
  const of = (verb) => [...new Set(scopes.filter(([known]) => known === verb).map(([, prefix]) => prefix))].sort();
  // A prefix inside another would be read twice.
  const observe = of('observe').filter((prefix, _, all) => !all.some((other) => other !== prefix && prefix.startsWith(other)));
  return { principal, observe, may: (verb, name) => of(verb).some((prefix) => name.startsWith(prefix)) };
}

class Page {
  #book;
  #who;
  #views;
  #view;
  #alerts = new Map();

  constructor(who) {
    this.#who = who;
    this.#book = new Book(who);
    this.#views = { locks: new Table(this.#book), elections: new Elections(this.#book), nodes: new Nodes(this.#book), deadlocks: new Deadlocks(this.#book) };
    this.#book.addEventListener('change', () => this.#changed());
    this.#book.addEventListener('health', () => this.#health());
    this.#book.addEventListener('link', () => this.#link());
    this.#book.addEventListener('unknown', () => asksWho && leave('This key is not known any more.'));
    addEventListener('hashchange', () => this.#route());
    document.addEventListener('keydown', (event) => this.#key(event));
    setInterval(() => this.#changed(), 1000);
    this.#route(true);
    this.#book.start(() => this.#view.seen());
  }

  #route(first) {
    const [, name = '', rest] = location.hash.match(/^#\/([^/]*)\/?(.*)$/) ?? [];
    const before = this.#view;
    if (name === 'lock') {
      let lock = '';
      try {
        lock = decodeURIComponent(rest);
      } catch {
        location.hash = '#/';
        return;
      }
      this.#view = new LockPage(lock, this.#book, this.#who);
    } else {
      this.#view = this.#views[name || 'locks'] ?? this.#views.locks;
    }
    if (before === this.#view) return;
    before?.unmount();
    main.replaceChildren(this.#view.root);
    this.#view.mount();
    if (first === true) document.activeElement?.blur();
    const shown = name === 'lock' ? 'locks' : name || 'locks';
    for (const tab of document.querySelectorAll('#tabs a')) {
      if (tab.dataset.view === shown) tab.setAttribute('aria-current', 'page');
      else tab.removeAttribute('aria-current');
    }
    document.title = `${this.#view.title} · Fencepost`;
  }

  #changed() {
    this.#view.update();
    if (byId('link').dataset.state !== 'connecting') this.#link();
    this.#trouble();
    this.#badge('elections', this.#book.counts.leaders.length, 'leader');
  }

  /** What is wrong with the store. If that is its quorum, one alert says all of it. */
  #trouble() {
    const { problem, heardAt, nodes } = this.#book;
    const { well, needed, all, broken, hurt } = quorum(nodes?.nodes ?? []);
    const serious = problem && problem.status !== 0 && problem.status !== 401;
    const old = !serious || heardAt === undefined ? '' : ` What is shown is ${calm(performance.now() - heardAt)} old.`;
    const unlisted = problem?.status === 403;
    const alone = serious && (unlisted || !(nodes && broken));
    this.#alert('store', alone && 'gone', unlisted ? 'This key may not list these names.' : `The store does not answer.${old}`);
    const named = (which) => nodes.nodes.filter(which).map((node) => `${node.node} (${voted(node)})`).join(', ');
    const [away, resting] = nodes ? [named((node) => !isWell(node) && !isQuarantined(node)), named(isQuarantined)] : [];
    const who = [away && `Away: ${away}.`, resting && `Not voting: ${resting}.`].filter(Boolean).join(' ');
    this.#alert('quorum', !nodes ? undefined : broken ? 'gone' : hurt ? 'late' : undefined,
      broken ? `${all > 1 ? `No quorum: ${well} of ${all} nodes vote, ${needed} must` : 'The store is away'}. Nothing can be granted or renewed; what is held runs out.${unlisted ? '' : old} ${who}`
        : hurt && `${all - well} of ${all} nodes ${all - well === 1 ? 'does' : 'do'} not vote, locks go on. ${who}`, '#/nodes', 'Nodes');
  }

  #health() {
    this.#trouble();
    const { all, well, hurt } = quorum(this.#book.nodes?.nodes ?? []);
    this.#badge('nodes', hurt ? all - well : 0, 'node away', 'nodes away', 'bad');
    const circles = this.#book.deadlocks.length;
    this.#alert('deadlock', circles ? 'late' : undefined, circles && `${many(circles, 'deadlock')}: ${this.#book.deadlocks[0].map((lock) => lock.name).join(' → ')}`, '#/deadlocks', 'Look');
    this.#badge('deadlocks', circles, 'circle', 'circles', 'bad');
  }

  #link() {
    const pill = byId('link');
    const on = this.#book.linked;
    const state = !on ? 'away' : this.#book.problem?.status >= 500 ? 'late' : 'live';
    if (pill.dataset.state === state) return;
    const first = pill.dataset.state === 'connecting';
    pill.dataset.state = state;
    put(pill.lastElementChild, { live: 'Live', late: 'Store away', away: 'Reconnecting' }[state]);
    if (!first || state === 'away') say({ live: 'Live again', late: 'The store does not answer', away: 'The connection to the service is lost; trying again' }[state]);
  }

  #badge(view, number, one, more = `${one}s`, kind = '') {
    const badge = document.querySelector(`[data-badge=${view}]`);
    badge.hidden = !number;
    if (number === Number(badge.dataset.number)) return;
    badge.dataset.number = number;
    badge.className = `badge ${kind}`;
    badge.replaceChildren(h('span', { 'aria-hidden': 'true', text: String(number) }), h('span', { class: 'sr', text: `, ${many(number, one, more)}` }));
  }

  #alert(id, state, text, href, title) {
    let shown = this.#alerts.get(id);
    if (!state) {
      shown?.root.remove();
      this.#alerts.delete(id);
      return;
    }
    if (!shown) {
      const words = h('span');
      shown = { words, root: h('p', { class: 'alert', 'data-alert': id }, words, href && h('a', { href, text: title })) };
      this.#alerts.set(id, shown);
      byId('alerts').append(shown.root);
      say(text);
    }
    shown.root.dataset.state = state;
    put(shown.words, text);
  }

  #key(event) {
    const typing = event.target.closest('input, select, textarea, dialog');
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape' && event.target.id === 'search') return this.#views.locks.focusRows();
    if (typing || (event.key.length === 1 && !hasSingleKeys())) return;
    const views = ['#/', '#/elections', '#/nodes', '#/deadlocks'];
    const act = {
      '/': () => { location.hash = '#/'; setTimeout(() => this.#views.locks.focusSearch()); },
      g: () => { location.hash = '#/'; setTimeout(() => this.#views.locks.focusRows()); },
      '?': help,
      t: theme.next,
      f: () => this.#view.force?.(),
      a: () => this.#view.yield?.(),
      Escape: () => { location.hash = '#/'; },
    }[event.key] ?? (views[event.key - 1] && (() => { location.hash = views[event.key - 1]; }));
    if (!act) return;
    event.preventDefault();
    act();
  }
}

function leave(why) {
  key.forget();
  if (why) sessionStorage.setItem(WHY, why);
  location.reload();
}

/** Whether a key is good: then the page begins. */
async function enter(value) {
  // What fits into no header could not even be refused by the service.
  if (!/^[!-~]*$/.test(value)) {
    key.forget();
    return 'This is no key: there are spaces in it, or characters that nobody sees. Copy it once more.';
  }
  key.set(value);
  try {
    const who = rights(await get('/v1/whoami'));
    if (!who.observe.length) {
      key.forget();
      return 'This key is good, but it may not observe anything: it needs a right such as observe:orders/.';
    }
    const button = byId('who');
    button.hidden = !asksWho;
    button.textContent = who.principal;
    button.title = 'Forget this key';
    button.setAttribute('aria-label', `${who.principal}: forget this key`);
    button.onclick = () => leave();
    new Page(who);
    return '';
  } catch (problem) {
    if (problem.status === 401) key.forget();
    return problem.status === 401 ? 'This key is not known here.' : problem.message;
  }
}

byId('help').addEventListener('click', help);
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

async function begin() {
  if (!asksWho || key.get()) {
    if (!(await enter(key.get()))) return;
  }
  if (asksWho && !key.get()) {
    put(byId('link').lastElementChild, 'Needs a key');
    askForKey(enter, sessionStorage.getItem(WHY) ?? '');
    sessionStorage.removeItem(WHY);
    return;
  }
  // The service is not there yet, or not there any more.
  put(byId('link').lastElementChild, 'Connecting');
  setTimeout(begin, 1000);
}

begin();
