// Questions to whoever looks: for a key, for a confirmation. And what came of it.

import { lockPath, post } from './api.js';
import { h, named, say } from './dom.js';
import { holderText } from './rows.js';

const TOAST_MS = 7000;

/** Opens a dialog; it is gone when it is closed, and focus is where it was. */
function open(title, ...content) {
  const heading = h('h2', { id: 'dialog-title', text: title });
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, heading, content);
  const before = document.activeElement;
  dialog.addEventListener('close', () => {
    dialog.remove();
    if (before?.isConnected) before.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export function toast(text, kind = 'good') {
  const shown = h('p', { class: `toast ${kind}`, text });
  document.body.append(shown);
  say(text);
  setTimeout(() => shown.remove(), TOAST_MS);
}

/** A question with a text to send along. Nothing happens before it is confirmed. */
function confirm({ title, about, field, verb, danger, act }) {
  const text = h('input', { id: 'dialog-text', type: 'text', maxlength: '200', autocomplete: 'off' });
  const trouble = h('p', { class: 'trouble', role: 'alert' });
  const sure = h('button', { type: 'submit', class: danger ? 'danger' : 'primary', text: verb });
  const form = h('form', {
    onsubmit: async (event) => {
      event.preventDefault();
      sure.disabled = true;
      try {
        const said = await act(text.value.trim());
        dialog.close();
        toast(said);
      } catch (problem) {
        trouble.textContent = problem.message;
        sure.disabled = false;
      }
    },
  },
  about.map((line) => h('p', { text: line })),
  h('label', { for: 'dialog-text', text: field }), text, trouble,
  h('div', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close(), text: 'Cancel' }), sure));
  const dialog = open(title, form);
  text.focus();
}

export function forceRelease(lock, done) {
  const who = holderText(lock) || 'nobody';
  confirm({
    title: 'Force release',
    about: [
      `Take “${lock.name}” from ${who}?`,
      'The next in line has it at once. The holder hears of it with its next renewal and may work on until then: only a fence that checks tokens stops what it still writes.',
    ],
    field: 'Reason, for the audit log and the history',
    verb: 'Force release',
    danger: true,
    act: async (reason) => {
      const { holder } = await post(lockPath(lock.name, '/force-release'), { reason });
      done();
      return holder ? `“${lock.name}” was taken from ${named(holder.label)}` : `“${lock.name}” was free already`;
    },
  });
}

export function askToYield(lock, done) {
  confirm({
    title: 'Ask to yield',
    about: [`Ask ${holderText(lock) || 'the holder'} to let go of “${lock.name}”?`, 'It hears of it with its next renewal, and decides.'],
    field: 'Note to the holder',
    verb: 'Ask',
    act: async (note) => {
      const { holder } = await post(lockPath(lock.name, '/ask'), { note });
      done();
      return holder ? `${named(holder.label)} was asked for “${lock.name}”` : `“${lock.name}” was free already`;
    },
  });
}

/** Asks for a key until one is good. `check` answers why it is not, `why` says why it is asked for again. */
export function askForKey(check, why) {
  const input = h('input', { id: 'key', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true });
  const trouble = h('p', { class: 'trouble', role: 'alert', text: why });
  const attempt = async (value) => {
    trouble.textContent = '';
    const refused = await check(value);
    if (refused) trouble.textContent = refused;
    else dialog.close();
  };
  const dialog = open('Who are you?',
    h('form', { onsubmit: (event) => { event.preventDefault(); attempt(input.value.trim()); } },
      h('p', { text: 'This service asks everybody for a credential. The key is kept in this window only, and forgotten with it.' }),
      h('label', { for: 'key', text: 'API key' }), input, trouble,
      h('div', { class: 'buttons' },
        h('button', { type: 'button', onclick: () => attempt(''), text: 'Use my certificate' }),
        h('button', { type: 'submit', class: 'primary', text: 'Show locks' }))));
  dialog.addEventListener('cancel', (event) => event.preventDefault());
  input.focus();
}

export function help() {
  const keys = [
    ['/', 'search'], ['↑ ↓ · j k', 'a lock up or down'], ['Page, Home, End', 'further'], ['Enter', 'open the lock'],
    ['Esc', 'back to the locks'], ['g', 'to the list of locks'], ['1 2 3 4', 'the four views'],
    ['f · a', 'on a lock: force release, ask to yield (admins)'], ['t', 'light, dark, as the system'], ['?', 'this'],
  ];
  const dialog = open('Keys',
    h('dl', { class: 'keys' }, keys.map(([key, what]) => [h('dt', {}, h('kbd', { text: key })), h('dd', { text: what })])),
    h('h3', { text: 'What is shown' }),
    h('p', { text: 'What happens at this replica shows at once. Locks that are taken past it, by the library or through another replica, are read page by page: 500 locks in two seconds, and what has waiters each time. A lock’s past is what this replica saw of it.' }),
    h('form', { method: 'dialog', class: 'buttons', onsubmit: (event) => { event.preventDefault(); dialog.close(); } }, h('button', { type: 'submit', class: 'primary', text: 'Close' })));
}
