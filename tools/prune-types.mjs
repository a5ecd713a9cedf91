import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

// node prune-types.mjs FOLDER ENTRY...: leaves in FOLDER the declarations that the entries lead to. tsc declares every module.
const [folder = '', ...entries] = process.argv.slice(2);
const types = pathToFileURL(`${resolve(folder)}/`);
const needed = new Set();

function need(url) {
  if (needed.has(url.href)) return;
  needed.add(url.href);
  const paths = readFileSync(url, 'utf8').matchAll(/['"](\.{1,2}\/[^'"]+)\.js['"]/g);
  for (const [, path] of paths) need(new URL(`${path}.d.ts`, url));
}

for (const entry of entries) need(new URL(`${entry}.d.ts`, types));
for (const file of readdirSync(types, { recursive: true })) {
  const url = new URL(file, types);
  if (file.endsWith('.d.ts') && !needed.has(url.href)) rmSync(url);
}
