import type { PolicyChange } from '../../deviations/index.js';
import type { Fate, Fault } from '../../scenarios/index.js';
import { type Attack, alone, type Setting, strikeAt } from '../../search/safety-map/adversary.js';
import { greatest } from '../../search/safety-map/bisect.js';
import { observeRun } from '../../search/safety-map/watch.js';
import { subsets } from './data-loss.js';

const TTL_MS = 10_000;
const DELAY_US = 1_000;
const EVERY_US = 1_000_000;
/** Votes, counters read, counters raised: when a raise is carried out. */
const RAISED_US = 5 * DELAY_US;
/** The first lock is released, and its keys have expired on the nodes that did not receive that. */
const SECOND_US = 15_000_000;

/** A lock whose counter `raised` of `nodes` nodes were raised to, and was released; then the next client reads `quorum`. */
export interface CounterCase {
  readonly nodes: number;
  readonly quorum: number;
  readonly raised: number;
}

/** The next client reads the counters of a quorum that the adversary chooses: `ignorant` ones as far as there are any. */
function secondAttack(
  { nodes, quorum, raised }: CounterCase,
  ignorant: readonly number[],
  more: Partial<Setting>,
): Attack {
  const all = Array.from({ length: nodes }, (_, node) => node);
  const first = [...all.filter((node) => ignorant.includes(node)), ...all.filter((node) => !ignorant.includes(node))];
  const lose = (client: string, operation: Fate['operation'], node: number, round?: number): Fate => ({
    client,
    operation,
    node: `n${node}`,
    direction: 'request',
    lost: true,
    ...(round === undefined ? {} : { round }),
  });
  const setting: Setting = {
    ttlMs: TTL_MS,
    delayUs: DELAY_US,
    nodes,
    holder: { holdUs: DELAY_US },
    fates: [
      ...all.slice(raised).map((node) => lose('c1', 'raise-counter', node, 1)),
      ...first.slice(quorum).map((node) => lose('c2', 'read-counter', node)),
    ],
    ...more,
    policy: { settings: { fencing: true }, deviations: [`quorum:${quorum}`, ...(more.policy?.deviations ?? [])] },
  };
  return strikeAt(setting, SECOND_US);
}

/** These nodes forget their counters, and count again at once. */
function lostCountersAttack(wanted: CounterCase, lost: readonly number[]): Attack {
  const faults = lost.map((node): Fault => ({ kind: 'crash', atUs: 1_000_000, node: `n${node}`, restartAfterUs: 0 }));
  const unraised = Array.from({ length: wanted.nodes - wanted.raised }, (_, i) => wanted.raised + i);
  return secondAttack(wanted, [...lost, ...unraised], { faults, policy: { deviations: ['counter-from-zero'] } });
}

/** The least number of nodes that lose their counters, whichever they are, with which a token comes again. */
export function leastLostCounters(wanted: CounterCase): number {
  for (let size = 0; size <= wanted.nodes; size++) {
    for (const nodes of subsets(wanted.nodes, size)) if (lostCountersAttack(wanted, nodes).disordered) return size;
  }
  throw new Error('tokens are in order even if every node forgets');
}

/** A raise on a node with an append-only file, so long after the start of an fsync, which takes its time. */
interface CounterDisk {
  readonly phaseUs: number;
  readonly takesUs: number;
}

/** Two of three nodes have the counter; one of them loses its power, and has an older one then, by which it goes. */
function oldCounterAttack({ phaseUs, takesUs }: CounterDisk, laterUs: number): Attack {
  const firstUs = (RAISED_US - phaseUs + EVERY_US) % EVERY_US;
  const fault: Fault = { kind: 'crash', atUs: RAISED_US + laterUs, node: 'n1', power: true, restartAfterUs: 0 };
  return secondAttack({ nodes: 3, quorum: 2, raised: 2 }, [1, 2], {
    faults: [fault],
    disk: { persistence: 'everysec', fsync: { firstUs, everyUs: EVERY_US, takesUs } },
    policy: { deviations: ['counter-kept'] },
  });
}

/** The longest time after a raise at which the loss of power still brings a token again, µs. */
export function longestUnsafeCounter(wanted: CounterDisk): number {
  return greatest(1, 4 * EVERY_US, (us) => oldCounterAttack(wanted, us).disordered);
}

/** The longest one-way delay of all messages with which a lock with this kind of token is had, µs. */
export function longestDelay(ttlMs: number, policy: PolicyChange): number {
  return greatest(0, 1000 * ttlMs, (delayUs) => observeRun(alone({ ttlMs, delayUs, policy })).claims.length > 0);
}

/** The circumstances that are the same in all losses of power. */
export const COUNTER_SETTING: { readonly everyUs: number } = { everyUs: EVERY_US };
