import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';

/** What is said of a file that cannot be audited. */
async function refusalOf(text: string): Promise<string> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  const audit = auditFile({ path, runs: 1, seed: '', budgetMs: 1_000 }, () => {});
  return audit.then(
    () => 'nothing',
    (error: Error) => error.message,
  );
}

it.each([
  ['export function lock( {', 'lock.ts:1:24: it has a syntax error: Unexpected token'],
  [
    "import pg from 'no-such-package';\nexport const lock = () => pg.query();",
    'lock.ts imports no-such-package, which is not installed; run npm install no-such-package',
  ],
  [
    "import net from 'node:net';\nexport const lock = () => new Promise((done) => net.connect(5432, 'db').on('connect', done));",
    'lock.ts connects to db:5432 (PostgreSQL): only Redis is simulated, so that a lock that needs anything else cannot be audited',
  ],
  [
    "import net from 'node:net';\nexport const lock = async () => { for (let i = 1; i < 8; i++) net.connect(7000 + i, 'localhost'); };",
    'lock.ts connects to localhost:7006 besides as many other servers as there are simulated nodes: 5, or what --nodes says',
  ],
  ["throw new Error('no configuration');", 'lock.ts throws as it is loaded: Error: no configuration'],
  [
    'export const add = (a: number, b: number): number => a + b;',
    'lock.ts: no lock was found in it: 2 ways to call it were tried, and none of them set a key in Redis by SET, SETNX, or a script; --acquire <name> says which function acquires',
  ],
])('says in a sentence what is wrong with %j', async (text, sentence) => {
  expect(await refusalOf(text)).toBe(sentence);
});
