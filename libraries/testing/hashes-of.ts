import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { hashOf } from './print-hash.js';

const SCRIPT = new URL('./print-hash.ts', import.meta.url).pathname;

/** Runs in one process; `HASH_RUNS=1000` makes more of them. */
const RUNS = Number(process.env.HASH_RUNS ?? 100);

/**
 * The hashes of one and the same run: many times in this process, once in a fresh one, and there again while garbage is
 * collected.
 */
export async function hashesOf(id: string): Promise<ReadonlySet<string>> {
  const hashes = new Set<string>();
  for (let i = 0; i < RUNS; i++) hashes.add(await hashOf(id, 'seed', 3));
  const argv = ['--expose-gc', '--import', 'tsx', SCRIPT, id, 'seed', '3'];
  const { stdout } = await promisify(execFile)(process.execPath, argv);
  const fresh = stdout.trim().split('\n');
  if (fresh.length !== 2) throw new Error(`two hashes, and not: ${stdout}`);
  for (const hash of fresh) hashes.add(hash);
  return hashes;
}
