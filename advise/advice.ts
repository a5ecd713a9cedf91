import type { CheckResult } from '../search/check.js';
import {
  allowing,
  type Change,
  clocksBreak,
  fencing,
  guarding,
  holdingBack,
  keeping,
  longerForClocks,
  longerForWork,
  ownTokens,
  slewing,
  stepsAtWill,
  syncing,
} from './changes.js';
import type { Figure } from './figures.js';
import { type Hazard, type HazardId, hazardsOf } from './hazards.js';
import { searchInside } from './inside.js';
import { type Solution, synthesize, type Tradeoff, tradeoffs, type VoteTradeoff, voteTradeoffs } from './synthesis.js';
import type { System } from './system.js';
import { UNKNOWNS, type Unknown } from './unknowns.js';

/** Safe as it is; safe with the changes; or not safe, whatever is set. */
export type AdviceVerdict = 'safe' | 'safe-if' | 'not';

/** What to do about a system, with its evidence. */
export interface Advice {
  readonly verdict: AdviceVerdict;
  /** The system as it was described, and with all changes in place. */
  readonly system: System;
  readonly advised: System;
  /** Of the system as it is. */
  readonly hazards: readonly Hazard[];
  /** What still fails with all changes in place. */
  readonly remaining: readonly Hazard[];
  /** The least changes, in the order in which they are to be made: clocks, nodes, clients. */
  readonly changes: readonly Change[];
  /** What would do in place of one of them. */
  readonly alternatives: readonly Alternative[];
  /** Of the system with all changes in place. */
  readonly figures: Solution;
  /** Empty unless they were asked for, like the next. */
  readonly tradeoffs: readonly Tradeoff[];
  readonly voteTradeoffs: readonly VoteTradeoff[];
  /** The search for what the client does wrong by itself, in the advised system. */
  readonly search: CheckResult;
}

/** A change in place of another one, with which the system is safe as well. */
export interface Alternative {
  readonly insteadOf: Change['id'];
  readonly change: Change;
  /** What is changed as well, whichever of the two is taken. */
  readonly before: readonly Change[];
  /** The changes that it needs beside it; they may have other values than those beside the other one. */
  readonly others: readonly Change[];
}

/** How an advice is worked out. */
export interface AdviseOptions {
  /** Histories of the search inside. Default 2000. */
  readonly runs?: number;
  readonly unknowns?: readonly Unknown[];
  /** Whether to work out the trade-offs as well. Default `false`. */
  readonly curves?: boolean;
  readonly signal?: AbortSignal;
  /** Called with what is done next. */
  readonly onStep?: (step: string) => void;
}

const RUNS = 2_000;

/** Finds the least changes with which a system is safe, proves them from both sides, and searches what is left. */
export async function adviseOn(system: System, options: AdviseOptions = {}): Promise<Advice> {
  const { runs = RUNS, unknowns = UNKNOWNS, curves: withCurves = false, signal, onStep } = options;
  onStep?.('judging the system as it is');
  const hazards = hazardsOf(system);
  const { changes, alternatives, advised } = changesFor(system);
  onStep?.('working out figures');
  const figures = eachAlone(advised, unknowns);
  const curves = withCurves
    ? { tradeoffs: tradeoffs(advised), voteTradeoffs: voteTradeoffs(advised) }
    : { tradeoffs: [], voteTradeoffs: [] };
  onStep?.('searching inside');
  const search = await searchInside(advised, { runs, ...(signal === undefined ? {} : { signal }) });
  const failing = hazardsOf(advised).filter(({ holds }) => !holds);
  // Of nodes that forget, a search finds nothing else.
  const remaining = failing.some(({ id }) => id === 'memory')
    ? failing
    : [...failing, ...(failing.some(({ id }) => id === 'client') ? [] : clientHazard(search))];
  const verdict = remaining.length > 0 ? 'not' : changes.length > 0 ? 'safe-if' : 'safe';
  return { verdict, system, advised, hazards, remaining, changes, alternatives, figures, ...curves, search };
}

/** Each figure of the system as it is then, with its own allowance and TTL. */
function eachAlone(advised: System, unknowns: readonly Unknown[]): Solution {
  const asked = unknowns.filter((it) => it !== 'ttl' || !advised.work.extends);
  return Object.assign({}, ...asked.map((unknown) => synthesize(advised, [unknown])));
}

/** What the client does wrong by itself, where a search found it. */
function clientHazard({ counterexample }: CheckResult): Hazard[] {
  if (counterexample === null) return [];
  return [{ id: 'client', holds: false, schedule: counterexample.schedule, breaks: counterexample.property }];
}

/** The least changes, and the system with them. */
export interface Changed {
  readonly changes: readonly Change[];
  readonly alternatives: readonly Alternative[];
  readonly advised: System;
}

/** Makes one change after the other, each where something fails without it, and each for the system as it is by then. */
export function changesFor(system: System): Changed {
  const { changes, others, advised } = leastChanges(system);
  return { changes: inOrder(changes), alternatives: others.flatMap(alternative), advised };
}

type Other = Omit<Alternative, 'others'>;

function leastChanges(system: System): Omit<Changed, 'alternatives'> & { readonly others: readonly Other[] } {
  const made: Change[] = [];
  const others: Other[] = [];
  let advised = system;
  const make = (change: Change | null, ...instead: readonly (Change | null)[]): void => {
    if (change === null) return;
    const before = [...made];
    made.push(change);
    advised = change.after;
    for (const other of instead) if (other !== null) others.push({ insteadOf: change.id, change: other, before });
  };
  if (stepsAtWill(system)) make(slewing(advised));
  const fails = (id: HazardId): boolean => hazardsOf(advised).some((it) => it.id === id && !it.holds);
  if (clocksBreak(advised)) make(...clockChanges(advised));
  make(ownTokens(advised));
  for (const change of keeping(advised)) make(change);
  if (fails('memory')) make(...memoryChanges(advised));
  if (fails('writes')) make(...writeChanges(advised));
  // A longer lock is longer away from a node, and its allowance is another one.
  if (made.some(({ id }) => id === 'ttl')) {
    if (clocksBreak(advised)) make(allowing(advised));
    if (fails('memory')) make(...memoryChanges(advised));
  }
  return { changes: merged(made), others, advised };
}

/** What is changed beside a change that takes the place of another one; nothing where the system is not safe then. */
function alternative(other: Other): Alternative[] {
  const { changes, advised } = leastChanges(other.change.after);
  return hazardsOf(advised).every(({ holds }) => holds) ? [{ ...other, others: changes }] : [];
}

/**
 * The order in which no step makes the lock less safe than it was. Allowances rest on clocks; a node has to stay away for
 * the longest TTL of any client before there is one; and a client is as safe as its own settings, whatever those of others.
 */
const ORDER: readonly Change['id'][] = [
  'slew',
  'no-eviction',
  'no-promotion',
  'fsync',
  'restart-delay',
  'allowance',
  'ttl',
  'own-tokens',
  'guard',
  'fencing',
];

function inOrder(changes: readonly Change[]): Change[] {
  return changes.toSorted((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id));
}

/** The client's own allowance, else a longer lock, else clocks that are not stepped: the first that suffices. */
function clockChanges(system: System): [Change | null, ...(Change | null)[]] {
  const steps = system.clocks.nodeStepUs !== 0 || system.clocks.clientStepUs !== 0 ? slewing(system) : null;
  const others = steps !== null && !clocksBreak(steps.after) ? [steps] : [];
  const own = allowing(system) ?? longerForClocks(system);
  if (own !== null) return [own, ...others];
  return [others[0] ?? null];
}

/** A delay changes nothing while all is well; where nobody can hold a node back, it has to keep its votes. */
function memoryChanges(system: System): [Change | null, ...(Change | null)[]] {
  const [delay, disk] = [holdingBack(system), syncing(system)];
  return delay === null ? [disk] : [delay, disk];
}

/** Tokens where they can be had; a longer lock where the work is bounded; else a look before each write. */
function writeChanges(system: System): [Change | null, ...(Change | null)[]] {
  const [tokens, guard] = [fencing(system), guarding(system)];
  if (tokens !== null) return [tokens, guard];
  const longer = system.work.extends ? null : longerForWork(system);
  return guard === null ? [longer] : [guard, longer];
}

/** Of changes of one kind, the last counts: it was worked out for the system with all others. */
function merged(changes: readonly Change[]): Change[] {
  const last = (change: Change): boolean => changes.findLast(({ id }) => id === change.id) === change;
  return changes.filter(last);
}

/** All figures of a solution. */
export function figuresOf(solution: Solution): Figure[] {
  return UNKNOWNS.flatMap((unknown) => solution[unknown] ?? []);
}
