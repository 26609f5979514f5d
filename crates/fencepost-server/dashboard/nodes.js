// The nodes of the store: what each said just now, and how fast.

import { sparkline } from './charts.js';
import { calm, h, put, span } from './dom.js';
import { View } from './view.js';

const SAMPLES = 60;
const WELL = ['granted', 'refused', 'stale'];

export const isWell = (node) => WELL.includes(node.vote) && node.quarantined_ms === undefined;
/** It answers, and may not vote yet. */
export const isQuarantined = (node) => WELL.includes(node.vote) && node.quarantined_ms !== undefined;
/** What a node says, in words. A node that lost its memory answers, but does not vote. */
export const voted = (node) => (node.quarantined_ms !== undefined ? `quarantined for ${calm(node.quarantined_ms)}` : isWell(node) ? 'answers' : node.vote);

/** What it said to the last claim. That another has a lock is no refusal of the node. */
const lastVote = ({ last_vote: vote = 'none yet' }) => (vote.startsWith('quarantined') ? 'quarantined' : vote === 'refused' ? 'held by another' : vote);

/** How the vote goes: who answers, and how many must. */
export function quorum(nodes) {
  const well = nodes.filter(isWell).length;
  const needed = Math.floor(nodes.length / 2) + 1;
  return { well, needed, all: nodes.length, broken: well < needed, hurt: well < nodes.length };
}

const stateOf = (node) => (isWell(node) ? 'well' : node.quarantined_ms !== undefined ? 'late' : 'gone');

export class Nodes extends View {
  title = 'Nodes';
  #book;
  #samples = new Map();
  #drawn;
  #summary = h('p', { class: 'lead' });
  #votes = h('ul', { class: 'votes', 'aria-label': 'Votes' });
  #body = h('tbody');
  #can = h('ul', { class: 'can' });
  #leases = h('p', { class: 'dim' });
  root = h('section', { class: 'view' }, h('h1', { tabindex: '-1', text: 'Nodes of the store' }), this.#summary, this.#votes,
    h('div', { class: 'card' }, h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Nodes' }, h('table', { class: 'nodes' },
      h('thead', {}, h('tr', {}, ['Node', 'Says', 'Last vote', 'Latency', 'Last minutes'].map((text) => h('th', { scope: 'col', text })))), this.#body))),
    h('div', { class: 'card' }, h('h2', { text: 'What this store can do' }), this.#can, this.#leases));

  constructor(book) {
    super();
    this.#book = book;
    book.addEventListener('health', () => this.#sample());
  }

  #sample() {
    for (const node of this.#book.nodes?.nodes ?? []) {
      const samples = this.#samples.get(node.node) ?? [];
      samples.push({ ms: node.latency_ms, well: isWell(node) });
      this.#samples.set(node.node, samples.slice(-SAMPLES));
    }
    if (this.root.isConnected) this.update();
  }

  update() {
    const known = this.#book.nodes;
    if (!known) return put(this.#summary, 'Asking the nodes…');
    // Nothing new: whoever marks a text keeps it.
    if (known === this.#drawn) return;
    this.#drawn = known;
    const { well, needed, all, broken } = quorum(known.nodes);
    put(this.#summary, all === 1 ? `One node, which ${well ? 'answers' : 'does not answer'}.`
      : `${well} of ${all} vote, ${needed} must. ${broken ? 'No lock can be granted or renewed.' : well < all ? 'Locks go on.' : ''}`);
    this.#summary.dataset.state = broken ? 'gone' : well < all ? 'late' : 'well';
    this.#votes.replaceChildren(...known.nodes.map((node) => h('li', { 'data-state': stateOf(node), title: `${node.node}: ${voted(node)}` },
      h('span', { class: 'sr', text: `${node.node}: ${voted(node)}` }))));
    this.#votes.hidden = all === 1;
    this.#body.replaceChildren(...known.nodes.map((node) => h('tr', {},
      h('td', { class: 'who', text: node.node }),
      h('td', {}, h('span', { class: 'pill', 'data-state': stateOf(node), text: voted(node) })),
      h('td', { class: 'dim', text: lastVote(node) }),
      h('td', { class: 'num', text: WELL.includes(node.vote) ? (node.latency_ms < 1 ? '< 1 ms' : span(node.latency_ms)) : node.latency_ms < 1 ? 'none' : `gave up after ${span(node.latency_ms)}` }),
      h('td', {}, sparkline(this.#samples.get(node.node) ?? [])))));
    const can = [
      [known.fifo, 'Who waits is served in order of arrival', 'Who waits may be overtaken'],
      [known.survives_restart, 'Locks outlive a restart of the store', 'A restart of the store loses its locks'],
      [known.survives_a_node, 'Locks outlive the loss of a node', 'The loss of a node is the loss of its locks'],
      [known.records, 'It keeps records beside locks', 'It keeps no records'],
    ];
    this.#can.replaceChildren(...can.map(([is, yes, no]) => h('li', { 'data-state': is ? 'well' : 'none', text: is ? yes : no })));
    put(this.#leases, `Leases from ${span(known.smallest_ttl_ms)} to ${span(known.largest_ttl_ms)}; version ${known.version}`);
  }
}
