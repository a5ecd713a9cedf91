import { driftAllowanceUs, type PolicyChange, policyWith } from '../../deviations/index.js';
import { judge } from '../../properties/judge.js';

import type { Cluster, Fault, PropertyId, Schedule } from '../../scenarios/index.js';

import { alone, attack, EXACT, type Setting } from './adversary.js';
import { type Point, struckOf, votersOf } from './point.js';
import { observeRun } from './watch.js';

/**
 * What came of a configuration under its optimal adversary. `unavailable`: the lock cannot be taken or used at all, or
 * fewer nodes than a quorum are up for a while; said only of what is not violated.
 */
export type CellVerdict = 'safe' | 'violated' | 'unavailable';

/** One measured configuration. */
export interface Cell {
  readonly verdict: CellVerdict;
  /** What is violated. */
  readonly property: PropertyId | null;
  /** The run that shows it: the attack that succeeded, or the one that came nearest. */
  readonly schedule: Schedule;
}

/**
 * Runs the optimal attacks on a configuration in the simulator. Nodes expire keys to the microsecond, without the
 * millisecond that Redis may add: a real key never lives shorter.
 */
export function measure(point: Point, change: PolicyChange = {}, persistence: Cluster['persistence'] = 'none'): Cell {
  const set = (at: Point, faults: readonly Fault[]): Setting => settingOf(at, change, faults, persistence);
  const hit = (at: Point): Setting => set(at, struck(at, change, persistence));
  const setting = hit(point);
  const calm = alone(setting);
  if (observeRun(calm).claims.length === 0) return { verdict: 'unavailable', property: null, schedule: calm };
  const strike = attack(setting);
  // An adversary that may crash a node may also leave it alone, so that a rival can use it.
  const others = point['restart-delay'] === null ? [] : [{ ...point, 'restart-delay': null }];
  const strikes = [strike, ...others.map((it) => attack(hit(it)))];
  const shared = strikes.find(({ overlap }) => overlap);
  if (shared !== undefined) return { verdict: 'violated', property: 'mutual-exclusion', schedule: shared.schedule };
  // An adversary that may set the clock of a restart delay may also leave it alone, so that the node is away for longer.
  const away = alone(set(point, struck({ ...point, step: 0 }, change, persistence)));
  const verdict = isOut(away) ? 'unavailable' : 'safe';
  if (point['write-delay'] === 0) return { verdict, property: null, schedule: strike.schedule };
  const writing = lateWrite(point, set(point, []));
  if (writing === null) return { verdict: 'unavailable', property: null, schedule: calm };
  if (isLate(writing)) return { verdict: 'violated', property: 'no-stale-write', schedule: writing };
  return { verdict, property: null, schedule: writing };
}

/** Whether for some time too few nodes for a quorum are up. */
function isOut(schedule: Schedule): boolean {
  return judge(schedule).outages.some(({ reason }) => reason === 'no-quorum-up');
}

function isLate(schedule: Schedule): boolean {
  return judge(schedule).violations.some(({ property }) => property === 'no-stale-write');
}

function settingOf(
  point: Point,
  change: PolicyChange,
  faults: readonly Fault[],
  persistence: Cluster['persistence'],
): Setting {
  const { ttl, drift, 'drift-allowance': allowance, 'fixed-allowance': extra, latency, nodes } = point;
  const voters = votersOf(point, change);
  return {
    ...(persistence === 'none' ? {} : { disk: { persistence, fsync: NEXT_SECOND } }),
    ttlMs: ttl / 1000,
    delayUs: latency,
    nodes,
    votes: voters,
    grain: EXACT,
    policy: { ...change, settings: { driftPpm: allowance, driftUs: extra, ...change.settings } },
    clientPpm: -drift,
    nodePpm: drift,
    drifting: voters,
    faults: [...down(point), ...faults],
  };
}

/** The last nodes, of which the holder's votes are not. */
function down({ nodes, 'nodes-down': down }: Point): Fault[] {
  const count = Math.min(nodes, down);
  return Array.from({ length: count }, (_, i) => ({
    kind: 'crash',
    atUs: 0,
    node: `n${nodes - count + i}`,
    restartAfterUs: null,
  }));
}

/** A power loss right after a vote comes before the fsync that would have kept it. */
const NEXT_SECOND = { firstUs: 1_000_000, everyUs: 1_000_000, takesUs: 0 };

/**
 * The first voters crash, and jump, in the very instant in which they vote, once they have: nothing later is worse. Where
 * nodes have a disk, it is the power that goes.
 */
function struck(point: Point, change: PolicyChange, persistence: Cluster['persistence']): Fault[] {
  const { step, latency, 'restart-delay': delay } = point;
  const voted = { atUs: latency, edge: 'after' } as const;
  const power = persistence === 'none' ? {} : { power: true };
  return Array.from({ length: struckOf(point, change) }, (_, i): Fault[] => {
    const node = `n${i}`;
    return [
      ...(delay === null
        ? []
        : [{ kind: 'crash', ...voted, ...power, node, restartAfterUs: delay, restartBy: 'node-clock' } as const]),
      ...(step === 0 ? [] : [{ kind: 'clock-step', ...voted, process: node, byUs: step } as const]),
    ];
  }).flat();
}

/**
 * The holder looks at its lock at the last instant at which enough is left, and its write arrives a pause later. A fast
 * clock is the worst for it: then what it has left is short. `null` if there is never enough left.
 */
function lateWrite(point: Point, setting: Setting): Schedule | null {
  const { ttl, drift, latency, 'write-delay': pause, guard } = point;
  const policy = policyWith(setting.policy ?? {});
  const elapsedUs = Math.floor(2 * latency * (1 + drift / 1_000_000));
  // At the very end there is no lock to look at any more.
  const lastLook = ttl - driftAllowanceUs(policy, ttl) - elapsedUs - Math.max(1, guard);
  const writing = (checkAfterUs: number, delayUs: number): Schedule => {
    const write = { checkAfterUs, guardUs: guard, sendAfterUs: checkAfterUs, delayUs };
    const schedule = alone({ ...setting, clientPpm: drift, holder: { writes: [write] } });
    return { ...schedule, untilUs: Math.max(schedule.untilUs, 2 * ttl + delayUs) };
  };
  // A fast clock may pass over that microsecond, and then finds too little left.
  for (const look of [lastLook, lastLook - 1].filter((us) => us >= 0))
    if (observeRun(writing(look, 0)).writes > 0) return writing(look, pause);
  return null;
}
