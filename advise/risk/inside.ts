import { choiceOf, driftAllowanceUs, quorumOf } from '../../deviations/index.js';
import { assumptions } from '../../properties/index.js';
import { type Fault, plainCluster, plainLock, type Schedule } from '../../scenarios/index.js';
import { nodeName } from '../../sim/index.js';
import { worstAgeUs } from './downtime.js';
import type { EventClass } from './event-classes.js';
import type { CauseName, RiskModel } from './model.js';
import type { Stratum } from './strata.js';

const PPM = 1_000_000;
const PAUSES: readonly CauseName[] = ['pause', 'suspend', 'vmPause'];
/** A frequent event happens at most this many standard deviations more often than expected, and a few times. */
const DEVIATIONS = 6;

/**
 * Whether every hold of a stratum keeps all that the lock assumes, even with the worst draw of each event: nodes that lose
 * keys, clocks that are set, pauses, and late writes. Of such a hold the theory says that it is safe, so that a share of
 * violations needs not be measured there; a few runs look for bugs.
 */
export function isInside(model: RiskModel, stratum: Stratum): boolean {
  return (stratum.part.contention === 'alone' || keepsBelief(model, stratum)) && keepsEffects(model, stratum);
}

/** Each rare event of a stratum, and frequent ones as often as they may come. */
function worstEvents({ part, events }: Stratum): EventClass[] {
  const frequent = part.frequent.flatMap((it) => {
    const most = Math.ceil(it.mean + DEVIATIONS * Math.sqrt(it.mean) + 3);
    return Array.from({ length: most }, () => it);
  });
  return [...events, ...frequent];
}

/** Whether no other client can come to believe that it holds the lock. */
function keepsBelief(model: RiskModel, stratum: Stratum): boolean {
  const { policy, nodes } = model;
  const events = worstEvents(stratum);
  const missing = events.filter(
    ({ cause, window }) => cause === 'partition' || (window === 'before' && isOfNode(cause)),
  );
  if (missing.some(({ cause }) => cause === 'powerLossOfAll')) return false;
  const quorum = quorumOf(policy, nodes.length);
  const votes = stratum.part.contention === 'close' ? quorum : Math.max(quorum, nodes.length - missing.length);
  const broken = assumptions(worstSchedule(model, stratum, events), policy, { votes });
  return broken.every((it) => it === 'bounded-write-delay');
}

function isOfNode(cause: CauseName): boolean {
  return cause === 'crash' || cause === 'powerLoss' || cause === 'powerLossOfAll' || cause === 'failover';
}

function worstSchedule(model: RiskModel, { part }: Stratum, events: readonly EventClass[]): Schedule {
  const names = model.nodes.map((_, i) => nodeName(i));
  const clocks = ['c1', 'c2', ...names].map((process) => {
    const sign = process.startsWith('c') ? -1 : 1;
    return { process, offsetUs: process.startsWith('c') ? 0 : 1, ratePpm: sign * model.driftPpm };
  });
  return {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(model.nodes.length, { persistence: 'always', clocks }),
    policy: choiceOf(model.policy),
    clients: ['c1', 'c2'].map((id) => ({ id, locks: [plainLock(0, model.ttlMs, { holdUs: part.holdUs })] })),
    faults: events.flatMap((it, i) => worstFaults(model, it, i)),
    fates: [],
    untilUs: 1,
  };
}

function worstFaults(model: RiskModel, { cause, bin, window, nodes }: EventClass, i: number): Fault[] {
  const own = nodes[i % Math.max(1, nodes.length)] ?? 0;
  const base = { atUs: 0 };
  switch (cause) {
    case 'crash':
    case 'powerLoss':
    case 'powerLossOfAll': {
      if (window === 'before') return [];
      const struck = cause === 'powerLossOfAll' ? model.nodes.map((_, n) => n) : [own];
      return struck.map((n) => worstCrash(model, n, bin.from, cause !== 'crash'));
    }
    case 'failover':
      return [{ kind: 'failover', ...base, node: nodeName(own), lagUs: model.nodes[own]?.lagUs ?? 0 }];
    case 'dataLoss':
      return [{ kind: 'data-loss', ...base, node: nodeName(own) }];
    case 'nodeStep':
      return [{ kind: 'clock-step', ...base, process: nodeName(own), byUs: bin.to }];
    case 'nodeStepOfAll':
      return model.nodes.map((_, n) => ({ kind: 'clock-step', ...base, process: nodeName(n), byUs: bin.to }));
    case 'clientStep':
      return [{ kind: 'clock-step', ...base, process: 'c1', byUs: -bin.to }];
    case 'suspend':
    case 'vmPause':
      return [
        { kind: 'suspend', ...base, process: 'c1', forUs: bin.to, stops: cause === 'vmPause' ? 'all' : 'monotonic' },
      ];
    default:
      return [];
  }
}

function worstCrash(model: RiskModel, n: number, downUs: number, power: boolean): Fault {
  const node = model.nodes[n];
  const restartAfterUs = Math.max(downUs, node?.restartUs ?? 2000 * model.ttlMs);
  const ageUs = node === undefined ? 0 : worstAgeUs(node, power);
  return { kind: 'crash', atUs: 0, node: nodeName(n), power, ...(ageUs > 0 ? { ageUs } : {}), restartAfterUs };
}

/** Whether the write arrives while its writer holds the lock: by its guard, or because the work ends early enough. */
function keepsEffects(model: RiskModel, stratum: Stratum): boolean {
  if (!model.writes || model.fenced) return true;
  const events = worstEvents(stratum);
  const pausedIn = (window: EventClass['window']): number =>
    events.reduce((sum, it) => sum + (PAUSES.includes(it.cause) && it.window === window ? it.bin.to : 0), 0);
  const lateUs = Math.max(model.writeUs[1], ...events.flatMap((it) => (it.cause === 'lateWrite' ? it.bin.to : [])));
  const { drift, backUs } = { drift: model.driftPpm / PPM, backUs: 2_000 };
  const sendingUs = (model.gapUs + pausedIn('gap') + lateUs) * (1 + drift) + backUs;
  if (model.guardUs !== null && model.guardUs > sendingUs) return true;
  if (model.extends) return false;
  const ttlUs = 1000 * model.ttlMs;
  const validUs = (ttlUs - driftAllowanceUs(model.policy, ttlUs)) / (1 + drift);
  const workUs = (2 * model.delayUs[1] + stratum.part.holdUs + pausedIn('held')) / (1 - drift);
  return workUs + sendingUs < validUs;
}
