import { readdirSync, readFileSync, rmSync } from 'node:fs';

// Leaves in dist/types what the entries lead to: tsc declares every module of the lock and of `core`.
const types = new URL('dist/types/', import.meta.url);
const needed = new Set();

function need(url) {
  if (needed.has(url.href)) return;
  needed.add(url.href);
  const paths = readFileSync(url, 'utf8').matchAll(/['"](\.{1,2}\/[^'"]+)\.js['"]/g);
  for (const [, path] of paths) need(new URL(`${path}.d.ts`, url));
}

for (const entry of ['index', 'compat']) need(new URL(`real/lock/${entry}.d.ts`, types));
for (const file of readdirSync(types, { recursive: true })) {
  const url = new URL(file, types);
  if (file.endsWith('.d.ts') && !needed.has(url.href)) rmSync(url);
}
