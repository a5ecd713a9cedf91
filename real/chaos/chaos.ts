import { setMaxListeners } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { layOut } from '../../scenarios/json-layout.js';
import { atExit } from '../provisioner/at-exit.js';
import { type Provision, provision } from '../provisioner/index.js';
import { NodeProxy } from '../proxy/index.js';
import { ClientPool } from './client-pool.js';
import { RandomFaultInjector, type TargetNode } from './fault-injector.js';
import { planFaults, SIDES } from './plan.js';
import type { ChaosOptions, ChaosPlan, ChaosResult } from './types.js';

const PROGRESS_MS = 500;
/** What a call may take on a machine that does much else, and while its process is stopped, ms. */
const SLACK_MS = 10_000;
/**
 * How long keys may take to go once the TTLs of locks are over: the key that a fresh connection is looked at by lives 10 s where
 * its removal was lost, and a redis-server removes expired ones when it finds the time.
 */
const CLEAN_UP_MS = 13_000;

/**
 * Has client processes contend for locks on real nodes, own server processes, while these are killed, stopped,
 * restarted, cut off and skewed. Within the assumptions, nodes that were killed stay away for longer than any key lives;
 * outside, a majority forgets at once. What is done when comes from the seed and is written down as a plan, with what the
 * machine added to its times; what the clients saw is in the history that is written.
 *
 * @throws ProvisionError where no own processes can be had.
 */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const { forMs, faultModel, seed, clients = 6, ttlMs = 1000, nodes = 5, signal, onProgress } = options;
  const { libraries = ['ioredis@5'], others = [] } = options;
  const settings = { seed, faultModel, clients, resources: options.resources ?? 6, ttlMs, nodes, forMs };
  const plan = planFaults(settings);
  const asked = { ...settings, libraries, others: others.map(({ name }) => name) };
  const written: ChaosPlan = { schema: 'lockstep.chaos-plan/1', ...asked, plan, performed: [] };
  writeTo(options.planPath, written);
  const clocks = faultModel === 'within';
  await using provided = await provision({ nodes, sources: ['processes', 'package'], clocks, others });
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-chaos-'));
  const places = await openWays(provided);
  const resources = Array.from({ length: settings.resources }, (_, i) => `lockstep:chaos:${i}`);
  const pool = new ClientPool(folder, (place) => ({
    seed,
    library: libraries[place % libraries.length] ?? 'ioredis@5',
    urls: urlsOf(places, place % SIDES),
    resources,
    ttlMs,
  }));
  const forget = atExit(() => pool.killNow());
  const ending = new AbortController();
  // Everybody who strikes waits on it.
  setMaxListeners(0, ending.signal);
  const storm = new RandomFaultInjector({ plan, places, pool, ttlMs, clocks: provided.clocks, ending });
  const begun = performance.now();
  const telling = setInterval(
    () => onProgress?.({ ...progressOf(pool, storm), doneMs: performance.now() - begun, forMs }),
    PROGRESS_MS,
  );
  try {
    for (let place = 0; place < clients; place++) pool.hire(place);
    const raging = storm.rage();
    const ends = AbortSignal.any([ending.signal, ...(signal === undefined ? [] : [signal])]);
    const time = sleep(forMs, undefined, { signal: ends }).catch(() => {});
    // A storm that fails ends the run at once, with its reason; one whose plan is done lets it go on.
    await Promise.race([time, raging.then(() => time)]);
    ending.abort();
    await raging;
    const boundMs = ttlMs + SLACK_MS;
    const stuck = await pool.dismiss(boundMs);
    const seconds = (performance.now() - begun) / 1000;
    const keysLeft = signal?.aborted ? null : await keysAfter(provided, ttlMs);
    return {
      ...{ faultModel, seed, clients, libraries, ttlMs, boundMs, stuck, keysLeft },
      planned: plan.length,
      lateMs: lateness(written, storm),
      nodes: provided.description,
      skewed: provided.clocks,
      seconds: Math.round(seconds * 10) / 10,
      interrupted: signal?.aborted ?? false,
      faults: storm.faults,
      ...toldBy(pool),
    };
  } finally {
    clearInterval(telling);
    ending.abort();
    await pool.kill();
    forget();
    // Also of a run that failed: what was seen until then stays.
    writeTo(options.planPath, { ...written, performed: storm.performed });
    pool.joinHistories(options.historyPath);
    await Promise.all(places.flatMap(({ ways }) => ways.map((way) => way.close())));
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What the clients told of their calls. */
function toldBy(pool: ClientPool): Pick<ChaosResult, 'calls' | 'acquired' | 'acquiredBy' | 'longestCallMs'> {
  const { reports, acquiredBy } = pool;
  return {
    calls: sum(reports.map(({ calls }) => calls)),
    acquired: sum(reports.map(({ acquired }) => acquired)),
    acquiredBy,
    longestCallMs: Math.round(Math.max(0, ...reports.map(({ longestCallMs }) => longestCallMs))),
  };
}

function writeTo(path: string, plan: ChaosPlan): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, layOut(plan));
}

/** How much later than planned faults began. */
function lateness({ plan }: ChaosPlan, { performed }: RandomFaultInjector): ChaosResult['lateMs'] {
  const late = performed.map(({ fault, begunMs }) => begunMs - (plan[fault]?.atMs ?? begunMs)).sort((a, b) => a - b);
  return { median: late[Math.floor(late.length / 2)] ?? 0, most: late.at(-1) ?? 0 };
}

async function openWays(provided: Provision): Promise<TargetNode[]> {
  return Promise.all(
    provided.nodes.map(async (node) => {
      const { hostname: host, port } = new URL(node.url);
      const open = () => NodeProxy.open({ host, port: Number(port) });
      return { node, ways: await Promise.all(Array.from({ length: SIDES }, open)) };
    }),
  );
}

function urlsOf(places: readonly TargetNode[], side: number): string[] {
  return places.map(({ ways }) => ways[side]?.url ?? '');
}

function progressOf(pool: ClientPool, storm: RandomFaultInjector): { readonly calls: number; readonly faults: number } {
  return { calls: sum(pool.reports.map(({ calls }) => calls)), faults: storm.count };
}

/** How many keys are left when all of them should be gone. */
async function keysAfter(provided: Provision, ttlMs: number): Promise<number> {
  await sleep(ttlMs * 1.02 + 50);
  const clients = provided.nodes.map((node) => node.client());
  const until = performance.now() + CLEAN_UP_MS;
  for (;;) {
    const left = sum(await Promise.all(clients.map(async (client) => (await client.keys('*')).length)));
    if (left === 0 || performance.now() > until) return left;
    await sleep(100);
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
