// Questions to whoever looks: for a key, for a confirmation. And what came of it.

import { lockPath, post } from './api.js';
import { h, named, put, say } from './dom.js';
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
  about.map((line) => h('p', {}, line)),
  h('label', { for: 'dialog-text', text: field }), text, trouble,
  h('div', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close(), text: 'Cancel' }), sure));
  const dialog = open(title, form);
  text.focus();
}

/** `again` answers the lock as it is now: whoever was asked about may be somebody else by then. */
export function forceRelease(lock, again, done) {
  let meant = lock;
  const question = h('span');
  const ask = () => put(question, `Take “${lock.name}” from ${holderText(meant)}?`);
  ask();
  confirm({
    title: 'Force release',
    about: [
      question,
      'The next in line has it at once. The holder hears of it with its next renewal and may work on until then: only a fence that checks tokens stops what it still writes.',
    ],
    field: 'Reason, for the audit log and the history',
    verb: 'Force release',
    danger: true,
    act: async (reason) => {
      const free = `“${lock.name}” was free already`;
      try {
        const { holder } = await post(lockPath(lock.name, '/force-release'), { reason, token: meant.holders[0].token });
        done();
        return holder ? `“${lock.name}” was taken from ${named(holder.label)}` : free;
      } catch (problem) {
        if (problem.code !== 'not_held') throw problem;
        meant = await again();
        if (!meant.holders.length) return free;
        ask();
        throw new Error(`It has gone to ${holderText(meant)} meanwhile, and nothing was done. Once more, if you mean that.`);
      }
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
  const buttons = [
    h('button', { type: 'button', onclick: () => attempt(''), text: 'Use my certificate' }),
    h('button', { type: 'submit', class: 'primary', text: 'Show locks' }),
  ];
  const attempt = async (value) => {
    if (buttons[0].disabled) return;
    trouble.textContent = '';
    buttons.forEach((button) => { button.disabled = true; });
    const refused = await check(value);
    buttons.forEach((button) => { button.disabled = false; });
    if (refused) trouble.textContent = refused;
    else dialog.close();
  };
  const dialog = open('Who are you?',
    h('form', { onsubmit: (event) => { event.preventDefault(); attempt(input.value.trim()); } },
      h('p', { text: 'This service asks everybody for a credential. The key is kept in this window only, and forgotten with it.' }),
      h('label', { for: 'key', text: 'API key' }), input, trouble,
      h('div', { class: 'buttons' }, buttons)));
  dialog.addEventListener('cancel', (event) => event.preventDefault());
  input.focus();
}

const SINGLE = 'fencepost-single-keys';
let single = true;
try {
  single = localStorage.getItem(SINGLE) !== 'off';
} catch {
  // A browser that keeps nothing has them on.
}

/** Whether a single letter does something: whoever speaks to their computer may not want that. */
export const hasSingleKeys = () => single;

function setSingleKeys(on) {
  single = on;
  try {
    localStorage.setItem(SINGLE, on ? 'on' : 'off');
  } catch {
    // Until the window is closed, then.
  }
}

export function help() {
  const keys = [
    ['/', 'search'], ['↑ ↓ · j k', 'a lock up or down'], ['Page, Home, End', 'further'], ['Enter', 'open the lock'],
    ['Esc', 'back to the locks'], ['g', 'to the list of locks'], ['1 2 3 4', 'the four views'],
    ['f · a', 'on a lock: force release, ask to yield (admins)'], ['t', 'light, dark, as the system'], ['?', 'this'],
  ];
  const dialog = open('Keys',
    h('dl', { class: 'keys' }, keys.map(([key, what]) => [h('dt', {}, h('kbd', { text: key })), h('dd', { text: what })])),
    h('label', { class: 'check' }, h('input', { id: 'single-keys', type: 'checkbox', checked: single, onchange: (event) => setSingleKeys(event.target.checked) }),
      'Single letters, digits, / and ? act at once'),
    h('h3', { text: 'What is shown' }),
    h('p', { text: 'What happens at this replica shows at once. Locks that are taken past it, by the library or through another replica, are read page by page: 500 locks in two seconds, and what has waiters each time. A lock’s past is what this replica saw of it.' }),
    h('form', { method: 'dialog', class: 'buttons', onsubmit: (event) => { event.preventDefault(); dialog.close(); } }, h('button', { type: 'submit', class: 'primary', text: 'Close' })));
}
