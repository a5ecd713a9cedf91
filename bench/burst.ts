import { setTimeout as sleep } from 'node:timers/promises';
import { type Lock, Redlock } from 'lockstep-redlock';
import { textTable } from '../cli/text-table.js';
import { quantile } from '../real/bench/statistics.js';
import { provision } from '../real/provisioner/index.js';
import { machineLine } from './machine.js';

/*
 * Ten thousand locks that are asked for in one turn of the event loop, beside the same work in batches of 100, on five own
 * servers in turns; and what is left on them when `quit()` follows at once: `npm run bench:burst`. Times are from the start of
 * the work until a lock is held.
 */
const MANY = 10_000;
const BATCH = 100;
const ROUNDS = 3;

await using provided = await provision({ nodes: 5, sources: ['processes', 'package'] });
const clients = provided.nodes.map((node) => node.client());
const keysLeft = async (): Promise<number> =>
  (await Promise.all(clients.map((client) => client.dbsize()))).reduce((sum, it) => sum + it, 0);

/** A lock whose connections are open and whose nodes know its scripts. */
async function warm(): Promise<Redlock> {
  const redlock = new Redlock(clients, { retryCount: 0 });
  await (await redlock.acquire('lockstep:warm', 5_000, { votesWanted: 'all' })).release();
  return redlock;
}

interface Round {
  readonly heldMs: number[];
  readonly failed: number;
}

async function round(redlock: Redlock, at: number, batch: number): Promise<Round> {
  const began = performance.now();
  const heldMs: number[] = [];
  const locks: Lock[] = [];
  const acquire = async (name: string): Promise<void> => {
    const lock = await redlock.acquire(name, 60_000).catch(() => null);
    if (lock === null) return;
    heldMs.push(performance.now() - began);
    locks.push(lock);
  };
  for (let done = 0; done < MANY; done += batch) {
    await Promise.all(Array.from({ length: batch }, (_, i) => acquire(`lockstep:burst:${at}:${done + i}`)));
  }
  await Promise.all(locks.map((lock) => lock.release()));
  return { heldMs, failed: MANY - heldMs.length };
}

const redlock = await warm();
const rows: string[][] = [];
let failed = 0;
for (let at = 0; at < ROUNDS; at++) {
  const burst = await round(redlock, 2 * at, MANY);
  const batches = await round(redlock, 2 * at + 1, BATCH);
  failed += burst.failed + batches.failed;
  const [one, other] = [burst, batches].map(({ heldMs }) => quantile(heldMs, 0.99)) as [number, number];
  rows.push([
    String(at + 1),
    `${burst.heldMs.length} of ${MANY}`,
    one.toFixed(0),
    other.toFixed(0),
    (one / other).toFixed(2),
  ]);
}
await redlock.quit();

const quitting = await warm();
const acquiring = Array.from({ length: MANY }, (_, i) => quitting.acquire(`lockstep:quit:${i}`, 60_000));
const settled = Promise.allSettled(acquiring);
const began = performance.now();
await quitting.quit();
const quitMs = performance.now() - began;
await settled;
// What is on its way to the nodes when the connections close is carried out.
for (let i = 0; i < 20 && (await keysLeft()) > 0; i++) await sleep(50);
const left = await keysLeft();

const head = ['round', 'held', 'p99 in one turn, ms', `p99 in batches of ${BATCH}, ms`, 'ratio'];
process.stdout.write(`${textTable(head, rows, 1)}

${failed} failed. quit() right after ${MANY} acquire took ${quitMs.toFixed(0)} ms, and left ${left} keys on 5 nodes.
${provided.description}; ${machineLine()}\n`);
if (failed > 0 || left > 0) process.exitCode = 1;
