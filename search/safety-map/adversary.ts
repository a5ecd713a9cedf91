import type { PolicyChange } from '../../deviations/index.js';
import {
  type ClockPlan,
  type Cluster,
  type Fate,
  type Fault,
  type LockPlan,
  plainCluster,
  plainLock,
  type Schedule,
} from '../../scenarios/index.js';
import { unreached } from '../../scenarios/plain.js';
import { nodeName } from '../../sim/index.js';
import { observeRun, type RunObservation } from './watch.js';

/** How nodes read time when they decide that a key has expired. */
export interface ExpiryModel {
  readonly expiry: Cluster['expiry'];
  readonly resolutionUs: Cluster['resolutionUs'];
  /** What a node's clock shows beyond a whole millisecond in the instant in which it carries out a SET, µs. */
  readonly phaseUs: number;
}

/** Everything on whole milliseconds: a key lives a millisecond longer than its TTL. */
export const ALIGNED: ExpiryModel = { expiry: 'after', resolutionUs: 1000, phaseUs: 0 };
/** The shortest life that Redis gives to a key: its SET came just before the millisecond changed. */
export const WORST: ExpiryModel = { expiry: 'after', resolutionUs: 1000, phaseUs: 999 };
/** A key lives exactly as long as its TTL: the limit of {@link WORST} on a continuous clock. */
export const EXACT: ExpiryModel = { expiry: 'at', resolutionUs: 1, phaseUs: 0 };
/** As {@link WORST}, on nodes where a key is gone once the clock is at its expiry. */
export const WORST_AT: ExpiryModel = { expiry: 'at', resolutionUs: 1000, phaseUs: 999 };

/** The holder `c1` with its lock, and all that happens to it. What is left out is calm. */
export interface Setting {
  readonly ttlMs: number;
  /** Every message takes this long, one way, µs. */
  readonly delayUs: number;
  readonly nodes?: number;
  /** How many nodes give the holder their vote; its requests to the others are lost. Default: all. */
  readonly votes?: number;
  readonly grain?: ExpiryModel;
  readonly policy?: PolicyChange;
  readonly holder?: Partial<LockPlan>;
  readonly rival?: Partial<LockPlan>;
  /** Rate of the clocks of `c1` and `c2`, ppm. */
  readonly clientPpm?: number;
  /** Rate of the first `drifting` nodes from the instant of the holder's SET on, ppm. */
  readonly nodePpm?: number;
  readonly drifting?: number;
  readonly faults?: readonly Fault[];
  readonly fates?: readonly Fate[];
  /** What of the nodes' memory survives; nothing by default. */
  readonly disk?: Pick<Cluster, 'persistence' | 'fsync'>;
  /** Keeps order on each connection unless `reordering`. */
  readonly link?: Cluster['link'];
}

const DEFAULT_NODES = 5;

/** The run of the holder alone: it calls at 0, and every SET of its is carried out `delayUs` later. */
export function alone(setting: Setting): Schedule {
  const { ttlMs, delayUs, nodes = DEFAULT_NODES } = setting;
  const names = Array.from({ length: nodes }, (_, node) => nodeName(node));
  return {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(nodes, {
      delayUs,
      link: setting.link ?? 'fifo',
      expiry: (setting.grain ?? ALIGNED).expiry,
      resolutionUs: (setting.grain ?? ALIGNED).resolutionUs,
      ...setting.disk,
      clocks: clocksOf(setting, nodes),
    }),
    policy: {
      profile: 'reference',
      ...setting.policy,
      settings: { nodeTimeoutUs: null, tries: 1, ...setting.policy?.settings },
    },
    clients: [{ id: 'c1', locks: [plainLock(0, ttlMs, setting.holder)] }],
    faults: [...driftOf(setting), ...(setting.faults ?? [])],
    fates: [...unreached('c1', ...names.slice(setting.votes ?? nodes)), ...(setting.fates ?? [])],
    untilUs: 1000 * (20 * ttlMs + 200_000),
  };
}

function clocksOf({ delayUs, grain = ALIGNED, clientPpm = 0 }: Setting, nodes: number): ClockPlan[] {
  const offsetUs = (((grain.phaseUs - delayUs) % 1000) + 1000) % 1000;
  const clocks: ClockPlan[] = [];
  for (let i = 0; i < nodes && offsetUs !== 0; i++) clocks.push({ process: `n${i}`, offsetUs, ratePpm: 0 });
  if (clientPpm !== 0) clocks.push({ process: 'c1', offsetUs: 0, ratePpm: clientPpm });
  return clocks;
}

/** Clocks that are right until the SET and drift from then on, so that the reading at the SET is exact. */
function driftOf({ delayUs, nodePpm = 0, drifting = 0 }: Setting): Fault[] {
  if (nodePpm === 0) return [];
  return Array.from({ length: drifting }, (_, i) => ({
    kind: 'clock-drift',
    atUs: delayUs,
    process: `n${i}`,
    ratePpm: nodePpm,
  }));
}

/** What an optimal adversary made of a setting. */
export interface Attack extends RunObservation {
  /** The whole run, rival included: it can be written down and replayed. */
  readonly schedule: Schedule;
  /** When the rival's SETs were carried out, true time. */
  readonly strikeUs: number;
}

/**
 * Lets a rival `c2` strike at the very instant at which a quorum is free for the first time after `fromUs` (by default,
 * after the holder's SETs): it calls so that its SETs are carried out then, and claims one message later. Nobody can
 * claim sooner, so if this rival does not overlap the holder, none does. Where a fault frees the quorum when the messages
 * of its instant are delivered already, the rival is there a microsecond later.
 */
export function attack(setting: Setting, fromUs: number = setting.delayUs): Attack {
  const calm = alone(setting);
  const { freeUs } = observeRun(calm, fromUs);
  if (freeUs === null) throw new Error('a quorum never gets free');
  const first = strikeAt(setting, freeUs);
  if (claims(first)) return first;
  const next = strikeAt(setting, freeUs + 1);
  return claims(next) ? next : first;
}

function claims(attack: Attack): boolean {
  return attack.claims.some(({ client }) => client === 'c2');
}

/** Adds a rival whose SETs are carried out at `strikeUs`. */
export function strikeAt(setting: Setting, strikeUs: number): Attack {
  const calm = alone(setting);
  const { clientPpm = 0 } = setting;
  const rival = { id: 'c2', locks: [plainLock(strikeUs - setting.delayUs, setting.ttlMs, setting.rival)] };
  // The rival's rate only decides whether its own attempt is quick enough; then a slow clock is on its side.
  const clocks = clientPpm === 0 ? [] : [{ process: 'c2', offsetUs: 0, ratePpm: clientPpm }];
  const schedule: Schedule = {
    ...calm,
    cluster: { ...calm.cluster, clocks: [...calm.cluster.clocks, ...clocks] },
    clients: [...calm.clients, rival],
  };
  return { ...observeRun(schedule), schedule, strikeUs };
}
