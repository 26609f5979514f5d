// How the page asks: with the key of whoever looks, which is kept for this window only.

const KEY = 'fencepost-key';
/** The service says something each second; after so long without a word it is gone. */
const SILENCE_MS = 5000;
const ANSWER_MS = 10000;

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? '',
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** What the service answered, if it was no success. Without a status: it did not answer. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail ?? (status ? `HTTP ${status}` : 'the service does not answer'));
    this.status = status;
    this.code = body?.code;
    this.votes = body?.votes ?? [];
  }
}

function headers(more) {
  return key.get() ? { ...more, authorization: `Bearer ${key.get()}` } : more;
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });
    const body = await answer.json();
    if (answer.ok) return body;
    throw new Problem(answer.status, body);
  } catch (error) {
    throw error instanceof Problem ? error : new Problem(answer?.status ?? 0);
  }
}

export const get = (path) => ask(path, { headers: headers({}) });

export const post = (path, body) =>
  ask(path, { method: 'POST', headers: headers({ 'content-type': 'application/json' }), body: JSON.stringify(body) });

/** Browsers fold these two away, however they are written: such a lock cannot be asked about by its path. */
export const hasPath = (name) => name !== '.' && name !== '..';

export const lockPath = (name, rest = '') => `/v1/locks/${encodeURIComponent(name)}${rest}`;

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/**
 * Follows the events below a prefix for ever, through every break. Not an `EventSource`, which cannot show a key.
 * `told` hears each event, `linked` whether somebody is at the other end.
 */
export async function follow(prefix, signal, told, linked) {
  let [last, fails] = ['', 0];
  while (!signal.aborted) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const answer = await fetch(`/v1/events?prefix=${encodeURIComponent(prefix)}`, {
        headers: headers(last ? { 'last-event-id': last } : {}),
        signal: AbortSignal.any([signal, silence.signal]),
      });
      if (!answer.ok) throw new Problem(answer.status);
      linked(true);
      fails = 0;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parse = parser((kind, data, id) => {
        last = id || last;
        told(kind, data);
      });
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        parse(value);
      }
    } catch {
      // Whatever it was: it is tried again, and whoever asks for data hears why.
    } finally {
      clearTimeout(timer);
    }
    if (signal.aborted) return;
    linked(false);
    fails += 1;
    // Many pages that lost the same service must not come back all at once.
    await pause(Math.min(5000, 250 * 2 ** Math.min(fails, 5)) * (0.5 + Math.random() / 2));
  }
}

/** Reads a stream of events as its pieces come in. */
function parser(told) {
  let [rest, event] = ['', {}];
  return (piece) => {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (event.data !== undefined) told(event.event ?? 'message', JSON.parse(event.data), event.id);
        event = {};
      } else if (!line.startsWith(':')) {
        const colon = line.indexOf(':');
        event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      }
    }
  };
}
