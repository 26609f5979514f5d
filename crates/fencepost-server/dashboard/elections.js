// Elections: locks whose holder publishes something.

import { age } from './book.js';
import { calm, h, named, put } from './dom.js';
import { Bar, lockHash } from './rows.js';
import { View } from './view.js';

const MOST = 200;

export class Elections extends View {
  title = 'Elections';
  #book;
  #cards = new Map();
  #timer;
  #list = h('ul', { class: 'cards' });
  #more = h('p', { class: 'dim' });
  #empty = h('div', { class: 'empty' }, h('p', { text: 'Nobody leads.' }),
    h('p', { class: 'dim', text: 'A leader shows here by what it publishes. One that publishes nothing looks like any other lock.' }));
  root = h('section', { class: 'view' }, h('h1', { tabindex: '-1', text: 'Elections' }), this.#empty, this.#list, this.#more);

  constructor(book) {
    super();
    this.#book = book;
  }

  mount() {
    super.mount();
    this.#timer = setInterval(() => this.#tick(), 500);
  }

  unmount() {
    clearInterval(this.#timer);
  }

  seen() {
    return [...this.#cards.keys()].slice(0, 40);
  }

  update() {
    const led = this.#book.counts.leaders.map((name) => this.#book.locks.get(name));
    this.#empty.hidden = led.length > 0;
    put(this.#more, led.length > MOST ? `${led.length - MOST} more: look for them among the locks.` : '');
    const names = new Set(led.slice(0, MOST).map((lock) => lock.name));
    for (const [name, card] of this.#cards) {
      if (!names.has(name)) {
        card.root.remove();
        this.#cards.delete(name);
      }
    }
    led.slice(0, MOST).forEach((lock, at) => {
      const card = this.#cards.get(lock.name) ?? this.#card(lock.name);
      if (this.#list.children[at] !== card.root) this.#list.insertBefore(card.root, this.#list.children[at] ?? null);
      card.lock = lock;
      const [leader] = lock.holders;
      put(card.leader, leader ? named(leader.label) : 'nobody leads');
      put(card.payload, leader?.payload ?? '');
      put(card.term, leader?.token ?? '–');
      put(card.candidates, lock.waiters.length ? lock.waiters.map((waiter) => named(waiter.label)).join(' › ') : 'none');
    });
    this.#tick();
  }

  #card(name) {
    const card = { leader: h('p', { class: 'who' }), payload: h('dd', { class: 'num' }), term: h('dd', { class: 'num' }), held: h('dd', { class: 'num' }), bar: new Bar(), candidates: h('dd') };
    card.root = h('li', { class: 'card' }, h('h2', {}, h('a', { href: lockHash(name), text: name })), card.leader,
      h('dl', {}, h('dt', { text: 'Publishes' }), card.payload, h('dt', { text: 'Term' }), card.term, h('dt', { text: 'Leads for' }), card.held,
        h('dt', { text: 'Time left' }), h('dd', {}, card.bar.root), h('dt', { text: 'Candidates' }), card.candidates));
    this.#cards.set(name, card);
    return card;
  }

  #tick() {
    for (const { lock, bar, held } of this.#cards.values()) {
      bar.show(lock?.holders[0]);
      put(held, lock?.holders[0]?.since === undefined ? '–' : calm(age(lock.holders[0])));
    }
  }
}
