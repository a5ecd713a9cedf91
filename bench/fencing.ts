import { appendFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Redis } from 'ioredis';
import { compareFencingTokens, type FencingToken, LockError, Redlock } from 'lockstep-redlock';
import { COUNTER_KEYS } from '../core/index.js';
import { type Persistence, type Provision, type ProvisionedNode, provision } from '../real/provisioner/index.js';
import { type RandomStream, RandomStreams } from '../sim/index.js';

/*
 * Fencing tokens on own servers that forget, roll back and hang: `npm run bench:fencing -- --persistence rdb --for 120`. The
 * plan of faults comes from the seed and is written down before the first of them. A fault that takes a counter waits until
 * a quorum can spare it; when that is, is a matter of the machine, and is written down with it.
 */

/** A fault of a node, so long after the one before; `restart` keeps what the disk has, `empty` nothing. */
interface PlannedFault {
  readonly afterMs: number;
  readonly node: number;
  readonly kind: 'restart' | 'power' | 'empty' | 'flush' | 'hang' | 'dump';
  readonly forMs: number;
}

type Kinds = readonly [PlannedFault['kind'], ...PlannedFault['kind'][]];

/** What is drawn from, by the persistence of the servers. */
const KINDS: ReadonlyMap<string, Kinds> = new Map<Persistence, Kinds>([
  ['none', ['empty', 'empty', 'flush', 'hang']],
  ['rdb', ['restart', 'restart', 'dump', 'dump', 'empty', 'flush', 'hang']],
  ['everysec', ['restart', 'power', 'power', 'empty', 'flush', 'hang']],
]);

const { values } = parseArgs({
  options: {
    persistence: { type: 'string', default: 'none' },
    for: { type: 'string', default: '120' },
    seed: { type: 'string', default: '1' },
    nodes: { type: 'string', default: '5' },
    clients: { type: 'string', default: '4' },
    /** A file for the plan and for what was done when, as JSON lines. */
    log: { type: 'string' },
  },
});
const kinds = KINDS.get(values.persistence);
if (kinds === undefined) throw new RangeError(`--persistence: ${[...KINDS.keys()].join(', ')}`);
const persistence = values.persistence as Persistence;
const forMs = Number(values.for) * 1000;
const [nodeCount, clientCount] = [Number(values.nodes), Number(values.clients)];
const quorum = Math.floor(nodeCount / 2) + 1;
const TTL_MS = 2_000;

function planOf(draw: RandomStream, kinds: Kinds): PlannedFault[] {
  const plan: PlannedFault[] = [];
  for (let atMs = 0; atMs < forMs; ) {
    const afterMs = draw.between(20, 600);
    const kind = draw.pick(kinds);
    plan.push({ afterMs, node: draw.below(nodeCount), kind, forMs: draw.between(1, 1_500) });
    atMs += afterMs;
  }
  return plan;
}

/** Acquires and releases locks, and compares each token with the greatest at the time of the call. */
class Watch {
  acquired = 0;
  failed: Record<string, number> = {};
  readonly wrong: string[] = [];
  greatest: FencingToken | null = null;
  lastMs = performance.now();
  longestWaitMs = 0;
  private readonly seen = new Set<string>();

  async work(redlock: Redlock, draw: RandomStream, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const before = this.greatest;
      try {
        await using lock = await redlock.acquire('lockstep:fencing-chaos', TTL_MS);
        this.note(lock.fencingToken, before);
        await sleep(draw.below(20));
      } catch (error) {
        if (!(error instanceof LockError)) throw error;
        this.failed[error.code] = (this.failed[error.code] ?? 0) + 1;
      }
    }
  }

  private note(token: FencingToken | null, before: FencingToken | null): void {
    if (token === null) throw new Error('there is no token');
    this.acquired++;
    this.noteTime();
    const name = `${token.counter} ${token.attempt}`;
    if (this.seen.has(name)) this.wrong.push(`${name} twice`);
    this.seen.add(name);
    if (before !== null && token.counter <= before.counter) this.wrong.push(`${name} after ${before.counter}`);
    if (this.greatest === null || compareFencingTokens(token, this.greatest) > 0) this.greatest = token;
  }

  /** There is a token now, or the run is over: the time since the last one counts. */
  noteTime(): void {
    const now = performance.now();
    this.longestWaitMs = Math.max(this.longestWaitMs, now - this.lastMs);
    this.lastMs = now;
  }
}

/** Whether a node knows its counter. */
async function knows(client: Redis): Promise<boolean> {
  const [server, replication, stored] = await Promise.all([
    client.info('server'),
    client.info('replication'),
    client.get(COUNTER_KEYS[0]),
  ]);
  const life = `${/run_id:(\w+)/.exec(server)?.[1]}${/master_replid2:(\w+)/.exec(replication)?.[1]}`;
  return stored?.split(' ')[1] === life;
}

async function withoutCounter(clients: readonly Redis[]): Promise<number[]> {
  const known = await Promise.all(clients.map((client) => knows(client).catch(() => false)));
  return known.flatMap((it, node) => (it ? [] : [node]));
}

async function strike(node: ProvisionedNode, client: Redis, { kind, forMs }: PlannedFault): Promise<void> {
  if (kind === 'dump') await client.bgsave();
  else if (kind === 'flush') await client.flushall();
  else if (kind === 'hang') {
    await node.pause();
    await sleep(forMs);
    await node.resume();
  } else {
    if (kind === 'power') await node.cutPower();
    else await node.kill();
    await sleep(forMs / 4);
    await node.restart({ keepData: kind !== 'empty' });
  }
}

async function storm(
  provided: Provision,
  clients: readonly Redis[],
  plan: readonly PlannedFault[],
): Promise<Partial<Record<PlannedFault['kind'], number>>> {
  const done: Partial<Record<PlannedFault['kind'], number>> = {};
  const endMs = performance.now() + forMs;
  for (const fault of plan) {
    await sleep(Math.min(fault.afterMs, Math.max(0, endMs - performance.now())));
    if (performance.now() >= endMs) break;
    const node = provided.nodes[fault.node];
    const client = clients[fault.node];
    if (node === undefined || client === undefined) continue;
    // A node that hangs still knows its counter, and a node that dumps loses nothing.
    const takes = fault.kind !== 'dump' && fault.kind !== 'hang';
    while (takes && performance.now() < endMs) {
      const without = new Set([...(await withoutCounter(clients)), fault.node]);
      if (nodeCount - without.size >= quorum) break;
      await sleep(20);
    }
    if (performance.now() >= endMs) break;
    log({ atMs: Math.round(performance.now() - begun), ...fault });
    await strike(node, client, fault).catch((error: Error) => log({ failed: error.message, ...fault }));
    done[fault.kind] = (done[fault.kind] ?? 0) + 1;
  }
  return done;
}

function log(line: object): void {
  if (values.log !== undefined) appendFileSync(values.log, `${JSON.stringify(line)}\n`);
}

const streams = new RandomStreams(values.seed);
const plan = planOf(streams.stream(0, 0), kinds);
if (values.log !== undefined) writeFileSync(values.log, '');
log({ seed: values.seed, persistence, forMs, plan });
await using provided = await provision({ nodes: nodeCount, sources: ['processes', 'package'], persistence });
const clients = provided.nodes.map((node) => node.client({ maxRetriesPerRequest: 1, commandTimeout: 2_000 }));
const locks = Array.from({ length: clientCount }, () => {
  const own = provided.nodes.map((node) => node.client());
  return new Redlock(own, { fencing: true, retryCount: 40, retryDelay: 25, retryJitter: 20, nodeTimeoutMs: 300 });
});
await locks[0]?.recoverFencing(0);
const watch = new Watch();
const ending = new AbortController();
const begun = performance.now();
const working = locks.map((lock, client) => watch.work(lock, streams.stream(1, client), ending.signal));
const done = await storm(provided, clients, plan);
// Once the faults are over, all nodes have to know their counter again.
const untilMs = performance.now() + 10_000;
while (performance.now() < untilMs && (await withoutCounter(clients)).length > 0) await sleep(50);
const left = await withoutCounter(clients);
ending.abort();
await Promise.all(working);
watch.noteTime();
for (const lock of locks) await lock.quit();
const { acquired, failed, greatest, longestWaitMs, wrong } = watch;
const counts = Object.entries(done).map(([kind, count]) => `${count} × ${kind}`);
process.stdout.write(`${wrong.length === 0 && left.length === 0 ? '✓' : '✗'} fencing, persistence ${persistence}, seed ${values.seed}
  nodes    ${provided.description}
  faults   ${counts.join(', ')}
  tokens   ${acquired}, the greatest ${greatest?.counter}; ${wrong.length} not higher than all before it
  failed   ${JSON.stringify(failed)}; the longest time without a token ${Math.round(longestWaitMs)} ms
  at last  ${left.length === 0 ? 'all nodes know their counter' : `without: ${left.join(' ')}`}
${wrong.slice(0, 5).join('\n')}\n`);
if (wrong.length > 0 || left.length > 0) process.exitCode = 1;
