import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { RandomStreams } from '../sim/index.js';
import { hashOf } from './testing/hash-of.js';

/** Of 100 runs of the search. It changes when what runs do changes, or how they are drawn or hashed; not otherwise. */
const GOLDEN = '745f3c9cf898ced3';

const script = fileURLToPath(new URL('./testing/print-hash.ts', import.meta.url));

/** What a new process says. */
function elsewhere(...flags: readonly string[]): string {
  const args = [...flags, '--import', 'tsx', script];
  return execFileSync(process.execPath, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

describe('the same search', () => {
  it('has the hash it has always had', () => {
    expect(hashOf(new RandomStreams('golden'), 50)).toBe(GOLDEN);
  });

  it('has the same hash in a fresh process', () => {
    expect(elsewhere()).toBe(GOLDEN);
  });

  it('has the same hash without a just-in-time compiler', () => {
    expect(elsewhere('--jitless')).toBe(GOLDEN);
  });
});
