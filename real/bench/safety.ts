import { setTimeout as sleep } from 'node:timers/promises';
import { SOUND } from '../../core/index.js';
import type { Source } from '../provisioner/index.js';
import { BenchCluster } from './cluster.js';
import { isInstalled, PEERS } from './peers.js';
import { type Held, type MakeSubject, makeLockstep, type Retries, type Subject } from './subjects.js';
import type { SubjectName } from './types.js';

/** One library in one situation. */
interface SafetyRow {
  readonly situation: string;
  readonly subject: SubjectName;
  /** `untold`: it does not say until when it holds. */
  readonly verdict: 'safe' | 'unsafe' | 'untold';
  /** What was seen. */
  readonly seen: string;
}

/** How verdicts are shown. */
export const SAFETY_MARKS: Readonly<Record<SafetyRow['verdict'], string>> = { safe: '✓', unsafe: '✗', untold: '·' };

/** What locks came to that were put to the test, one row each. */
export interface SafetyResult {
  readonly schema: 'lockstep.safety/1';
  readonly redis: string;
  readonly rows: readonly SafetyRow[];
}

/** What is put to the test. */
interface SafetyOptions {
  /** Whether other libraries are tried too, as far as they are installed. Default true. */
  readonly peers?: boolean;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
  readonly signal?: AbortSignal;
}

const NODES = 5;
/** Nodes are stopped and emptied: nobody else's. */
const OWN_NODES: readonly Source[] = ['processes', 'package'];
/** Within the time that a node has by default. */
const SLOW_MS = 20;
const HOUR_MS = 3_600_000;
/** Long beside what a busy machine needs for a few replies. */
const TTL_MS = 2000;
const TRIES = 10;
/** Nodes tell whole milliseconds. */
const ROUNDING_MS = 1;
const CONNECT_MS = 400;
const ONCE: Retries = { count: 0, delayMs: 10, jitterMs: 5 };

type Seen = Pick<SafetyRow, 'verdict' | 'seen'>;

/** What a situation is acted out with. */
interface Stage {
  readonly cluster: BenchCluster;
  readonly subject: Subject;
  readonly resource: string;
  /** The resource's key on the nodes. */
  readonly key: string;
}

interface Situation {
  readonly name: string;
  /** Nodes that are slow from the start. Default 0. */
  readonly slow?: number;
  act(stage: Stage): Promise<Seen>;
}

const SITUATIONS: readonly Situation[] = [
  { name: 'three nodes hang for longer than the TTL during an acquisition', act: acquiredTooSlowly },
  {
    name: 'three nodes answer 20 ms late',
    slow: 3,
    act: claimedOnSlowNodes,
  },
  {
    name: 'wall clock set back by 1 h during an acquisition',
    act: (it) => steppedWhileAcquiring(it, -HOUR_MS),
  },
  { name: 'wall clock set back by 1 h while held', act: (it) => steppedWhileHeld(it, -HOUR_MS) },
  { name: 'wall clock set forward by 1 h while held', act: (it) => steppedWhileHeld(it, HOUR_MS) },
  { name: 'extension after the validity has ended', act: extendedAfterExpiry },
  { name: 'extension that a quorum answers after the validity has ended', act: extendedTooSlowly },
  { name: 'keys left by an acquisition that failed', act: leftKeys },
  { name: 'keys left by one that failed while a node hung', act: leftKeysOnHungNode },
];

/**
 * Acts out on own real nodes what is known to have fooled locks.
 *
 * @throws ProvisionError if no server program can be had.
 */
export async function runSafety(options: SafetyOptions = {}): Promise<SafetyResult> {
  const { peers = true, onProgress, signal } = options;
  const makers: [SubjectName, MakeSubject][] = [['lockstep', makeLockstep]];
  if (peers) for (const peer of PEERS.filter(isInstalled)) makers.push([peer.name, peer.make]);
  await using cluster = await BenchCluster.start(NODES, OWN_NODES);
  const rows: SafetyRow[] = [];
  for (const situation of SITUATIONS) {
    for (const [subject, make] of makers) {
      if (signal?.aborted) break;
      rows.push({ situation: situation.name, subject, ...(await actOut(situation, make, cluster)) });
      onProgress?.({ done: rows.length, total: SITUATIONS.length * makers.length });
    }
  }
  return { schema: 'lockstep.safety/1', redis: cluster.provision.description, rows };
}

async function actOut(situation: Situation, make: MakeSubject, cluster: BenchCluster): Promise<Seen> {
  await cluster.slow(situation.slow ?? 0, SLOW_MS);
  const subject = await make((given) => cluster.makeClients(given), ONCE, TTL_MS);
  try {
    // Connects to slow nodes too, and loads scripts.
    await sleep(CONNECT_MS);
    await (await subject.worker('lockstep:safety:warm').acquire()).release();
    const resource = 'lockstep:safety:a';
    return await situation.act({ cluster, subject, resource, key: `${subject.keyPrefix ?? ''}${resource}` });
  } finally {
    await subject.close();
    await cluster.heal('healthy');
    await Promise.all(cluster.makeClients().map((client) => client.flushall()));
    await cluster.heal('healthy');
  }
}

async function acquiredTooSlowly({ cluster, subject, resource }: Stage): Promise<Seen> {
  await cluster.harm('three-stopped');
  const acquiring = subject.worker(resource).acquire().then(toldOf, failed);
  await sleep(TTL_MS * 1.2);
  await cluster.mend('three-stopped');
  const outcome = await acquiring;
  return 'why' in outcome
    ? { verdict: 'safe', seen: `failed: ${outcome.why}` }
    : { verdict: 'unsafe', seen: `acquired${outcome.claimedMs === null ? '' : `, claims ${ms(outcome.claimedMs)}`}` };
}

function toldOf(held: Held): { readonly claimedMs: number | null } {
  return { claimedMs: held.claimedMs() };
}

function failed(error: unknown): { readonly why: string } {
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined;
  return { why: typeof code === 'string' ? code : error instanceof Error ? error.name : String(error) };
}

async function claimedOnSlowNodes({ cluster, subject, resource, key }: Stage): Promise<Seen> {
  const direct = cluster.provision.nodes.map((node) => node.client());
  const held = await firstOf(TRIES, () => subject.worker(resource).acquire());
  return compared(held, direct, key);
}

/** On a busy machine even that can be too late. */
async function firstOf<T>(tries: number, attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    if (tries === 1) throw error;
    return firstOf(tries - 1, attempt);
  }
}

async function steppedWhileAcquiring({ cluster, subject, resource, key }: Stage, stepMs: number): Promise<Seen> {
  const direct = cluster.makeClients();
  const acquiring = subject.worker(resource).acquire();
  return withWallClock(stepMs, async () => compared(await acquiring, direct, key));
}

async function steppedWhileHeld({ cluster, subject, resource, key }: Stage, stepMs: number): Promise<Seen> {
  const held = await subject.worker(resource).acquire();
  return withWallClock(stepMs, () => compared(held, cluster.makeClients(), key));
}

/** Has all of this process see the wall clock elsewhere. */
async function withWallClock<T>(aheadMs: number, work: () => Promise<T>): Promise<T> {
  const { now } = Date;
  Date.now = () => now() + aheadMs;
  try {
    return await work();
  } finally {
    Date.now = now;
  }
}

/**
 * The claim beside the time for which a quorum still has the keys. The keys are looked at first and only get older, so
 * that a claim above them is one for certain.
 */
async function compared(held: Held, direct: ReturnType<BenchCluster['makeClients']>, key: string): Promise<Seen> {
  const left = await Promise.all(direct.map((client) => client.pttl(key)));
  const claimedMs = held.claimedMs();
  const keptMs = left.sort((a, b) => b - a)[SOUND.quorum(NODES, 'acquire') - 1] ?? 0;
  if (claimedMs === null) return { verdict: 'untold', seen: 'tells no time' };
  return {
    verdict: claimedMs <= keptMs + ROUNDING_MS ? 'safe' : 'unsafe',
    seen: `claims ${ms(claimedMs)}, keys ${ms(keptMs)}`,
  };
}

async function extendedAfterExpiry({ cluster, subject, resource, key }: Stage): Promise<Seen> {
  const held = await subject.worker(resource).acquire();
  // Nobody else may be asked, but somebody else may have been here.
  await sleep(TTL_MS * 1.1);
  const direct = cluster.makeClients();
  const outcome = await held.extend().then(() => null, failed);
  const keys = (await Promise.all(direct.map((client) => client.exists(key)))).filter(Boolean).length;
  if (outcome !== null) return { verdict: 'safe', seen: `refused: ${outcome.why}` };
  return { verdict: 'unsafe', seen: `extended, ${keys} keys set again` };
}

async function extendedTooSlowly({ cluster, subject, resource }: Stage): Promise<Seen> {
  const held = await subject.worker(resource).acquire();
  await cluster.harm('three-stopped');
  const extending = held.extend().then(() => null, failed);
  await sleep(TTL_MS * 1.2);
  const claimedMs = held.claimedMs();
  await cluster.mend('three-stopped');
  const outcome = await extending;
  if (outcome === null) return { verdict: 'unsafe', seen: 'extended' };
  if (claimedMs !== null && claimedMs > 0) return { verdict: 'unsafe', seen: `claims ${ms(claimedMs)} meanwhile` };
  return { verdict: claimedMs === null ? 'untold' : 'safe', seen: `refused: ${outcome.why}` };
}

async function leftKeys(stage: Stage): Promise<Seen> {
  return keysLeft(stage, async () => {});
}

async function leftKeysOnHungNode(stage: Stage): Promise<Seen> {
  return keysLeft(stage, async () => {
    await stage.cluster.harm('one-stopped');
    setTimeout(() => stage.cluster.mend('one-stopped'), TTL_MS / 10);
  });
}

/** Somebody else holds the resource on a quorum; what does a failed acquisition leave on the other nodes? */
async function keysLeft({ cluster, subject, resource, key }: Stage, before: () => Promise<void>): Promise<Seen> {
  const direct = cluster.makeClients();
  const others = direct.slice(0, SOUND.quorum(NODES, 'acquire'));
  await Promise.all(others.map((client) => client.set(key, 'other', 'PX', TTL_MS * 10)));
  await before();
  const outcome = await subject.worker(resource).acquire().then(toldOf, failed);
  if (!('why' in outcome)) return { verdict: 'unsafe', seen: 'acquired' };
  // Time for what is under way in the background, well within the TTL.
  await sleep(TTL_MS / 4);
  const values = await Promise.all(direct.map((client) => client.get(key)));
  const stray = values.filter((value) => value !== null && value !== 'other').length;
  return { verdict: stray === 0 ? 'safe' : 'unsafe', seen: stray === 0 ? 'none' : `${stray} left to expire` };
}

function ms(value: number): string {
  return `${Math.round(value)} ms`;
}
