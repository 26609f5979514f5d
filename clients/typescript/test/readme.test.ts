// The examples of the README, in a program that has installed the package.

import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { Place } from "./support.js";

test("every example of the README is typed, and runs", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const installed = process.env["FENCEPOST_TEST_APP"] ?? "";
  assert.ok(installed, "FENCEPOST_TEST_APP names a folder with the package installed, and the compiler beside it");
  cpSync(installed, place.folder, { recursive: true });
  const page = readFileSync(join(place.folder, "node_modules/fencepost/README.md"), "utf8");
  const examples = [...page.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code]) => code ?? "");
  assert.ok(examples.length >= 3);
  const files = examples.map((code, number) => {
    const file = join(place.folder, `example${number}.ts`);
    writeFileSync(file, `${code.replaceAll("http://127.0.0.1:7117", url)}\nexport {};\n`);
    return file;
  });
  const settings = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"];
  const tools = process.env["FENCEPOST_TEST_MODULES"] ?? "";
  const roots = ["--typeRoots", join(tools, "@types"), "--lib", "es2022,dom,esnext.disposable"];
  const tsc = join(tools, "typescript/bin/tsc");
  const checked = place.start(process.execPath, [tsc, ...settings, ...roots, ...files]);
  let said = "";
  for (let line = await checked.line(); line; line = await checked.line()) said += `${line}\n`;
  assert.equal(await checked.ended, 0, said);
  for (const file of files) {
    const run = place.start(process.execPath, [file.replace(/\.ts$/, ".js")]);
    assert.equal(await run.ended, 0, `${file}\n${place.log()}`);
  }
});
