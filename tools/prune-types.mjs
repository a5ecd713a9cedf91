import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

// node prune-types.mjs FOLDER ENTRY...: leaves in FOLDER the declarations that the entries lead to. tsc declares every module.
// What documents them in one line is left out of the modules of audit and guests: the package has a limit, and declarations have it.
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

const DOC_LINE = /^[ \t]*\/\*\*.*\*\/[ \t]*\n/gm;
const WITHOUT_DOCS = /^(?:audit|guests)[\\/].*\.js$/;

/** Whether what follows a text is in no template. */
function isCode(before) {
  return (before.replace(DOC_LINE, '').match(/`/g) ?? []).length % 2 === 0;
}

for (const file of readdirSync(types, { recursive: true })) {
  if (!WITHOUT_DOCS.test(file)) continue;
  const url = new URL(file, types);
  const text = readFileSync(url, 'utf8');
  writeFileSync(
    url,
    text.replace(DOC_LINE, (line, at) => (isCode(text.slice(0, at)) ? '' : line)),
  );
}
