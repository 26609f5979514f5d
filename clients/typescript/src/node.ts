/** What only Node.js has. */

import { readFile, stat } from "node:fs/promises";

import { InvalidError } from "./errors.js";
import { checked } from "./service.js";

/**
 * The key in a file, read again when the file has changed: `new Client(url, { apiKey: keyFile() })`. Without a path it is
 * the file that `FENCEPOST_API_KEY_FILE` names.
 */
export function keyFile(path: string | undefined = process.env["FENCEPOST_API_KEY_FILE"]): () => Promise<string> {
  if (path === undefined || path === "") {
    throw new InvalidError("keyFile: name the file, or set FENCEPOST_API_KEY_FILE to its path");
  }
  let known: { key: string; stamp: string } | null = null;
  return async () => {
    try {
      const { mtimeMs, size } = await stat(path);
      const stamp = `${mtimeMs} ${size}`;
      if (known?.stamp !== stamp) known = { key: checked(await readFile(path, "utf8")), stamp };
      return known.key;
    } catch (error) {
      // While it is being replaced, the key that was good before is.
      if (known !== null) return known.key;
      throw new InvalidError(`keyFile: ${path}: ${(error as Error).message}`);
    }
  };
}
