import { later } from "./clock.js";

/** One event of a stream. */
export interface Said {
  kind: string;
  data: string;
  id: string | null;
}

const EVENT_MAX = 1024 * 1024;

/**
 * The events of a stream, until it breaks, is closed, or is silent for too long: the service says something every second.
 */
export async function* events(body: ReadableStream<Uint8Array>, silenceMs: number): AsyncGenerator<Said, void, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const piece = await spoken(reader, silenceMs);
      if (piece === null) return;
      text = (text + decoder.decode(piece, { stream: true })).replaceAll("\r\n", "\n");
      if (text.length > EVENT_MAX) return;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const said = read(text.slice(0, end));
        text = text.slice(end + 2);
        if (said !== null) yield said;
      }
    }
  } finally {
    // Not waited for: whoever is silent may be silent about this, too.
    reader.cancel().catch(() => undefined);
  }
}

/** The next bytes; `null`: the stream has ended. */
async function spoken(reader: ReadableStreamDefaultReader<Uint8Array>, silenceMs: number): Promise<Uint8Array | null> {
  let stop = (): void => undefined;
  const silence = new Promise<null>((resolve) => {
    stop = later(silenceMs, () => resolve(null));
  });
  try {
    const next = reader.read().then(
      ({ done, value }) => (done ? null : value),
      () => null,
    );
    return await Promise.race([next, silence]);
  } finally {
    stop();
  }
}

function read(block: string): Said | null {
  const said: Said = { kind: "message", data: "", id: null };
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") said.kind = value;
    else if (field === "id") said.id = value;
    else if (field === "data") data.push(value);
  }
  return data.length === 0 ? null : { ...said, data: data.join("\n") };
}
