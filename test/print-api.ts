import { mkdirSync, writeFileSync } from 'node:fs';
import { apiReference } from './api-reference.js';
import { cliReference } from './cli-reference.js';

/** Writes docs/api/ and docs/cli.md. */
const TOP = new URL('..', import.meta.url);
mkdirSync(new URL('docs/api/', TOP), { recursive: true });
const entries = apiReference();
for (const { file, text } of entries) writeFileSync(new URL(file, TOP), text);
const index = entries.map(
  ({ entry, file, names }) => `* [\`${entry}\`](${file.slice('docs/api/'.length)}): ${names.length} exports`,
);
const total = entries.flatMap(({ names }) => names).length;
writeFileSync(new URL('docs/api/README.md', TOP), `# API reference\n\n${index.join('\n')}\n\n${total} names in all.\n`);
writeFileSync(new URL('docs/cli.md', TOP), await cliReference());
