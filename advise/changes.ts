import { driftAllowanceUs, policyWith } from '../deviations/index.js';
import { formatDurationMs } from '../scenarios/duration.js';
import { attackOf, isShared } from './attacks.js';
import type { Figure } from './figures.js';
import { lateReleaseOf } from './late-release.js';
import { acquisitionLines, formatFactor, libraryOf, validMs, withOwnTokens } from './libraries.js';
import {
  clockOrderLines,
  fsyncLines,
  holdBackLines,
  inWords,
  type Lines,
  mergedLines,
  noEvictionLines,
  noPromotionLines,
  slewCost,
  slewLines,
  slewRatePpm,
} from './lines.js';
import { silenceWords } from './silence.js';
import { restartLoss, stressOf, wayOf, workStressOf } from './stress-of.js';
import { synthesize, withAllowance, withDrift, withPolicy, withTtl } from './synthesis.js';
import type { System, SystemNode } from './system.js';
import { isHad, type Write, writeSchedule } from './writes.js';

/** What to change, of which one sentence says what and why. */
export interface Change {
  readonly id:
    | 'slew'
    | 'allowance'
    | 'own-tokens'
    | 'ttl'
    | 'fsync'
    | 'restart-delay'
    | 'no-eviction'
    | 'no-promotion'
    | 'guard'
    | 'fencing';
  readonly title: string;
  readonly lines: readonly Lines[];
  /** The system with the change in place. */
  readonly after: System;
  /** The least value that it rests on. */
  readonly figure?: Figure;
}

/**
 * A least value rounded up to what people write, with a thousandth of it to spare at least: to two digits, or half of the
 * second after a 1, and to whole units.
 */
export function roundedUp(least: number, unit = 1): number {
  const digits = String(Math.ceil((least * 1001) / 1000));
  const step = Math.max(unit, 10 ** (digits.length - 2) / (digits.startsWith('1') ? 2 : 1));
  return Math.ceil((least * 1001) / 1000 / step) * step;
}

/** What a rounded figure stands for, exactly, as an aside. */
function exactly({ least }: Figure): string {
  return `(at least ${formatDurationMs(least)} ms)`;
}

/** Whether clocks are set by any amount, as by a time service that steps: no allowance covers that. */
export function stepsAtWill({ clocks, client }: System): boolean {
  return clocks.nodeStepUs === null || (client.policy.habits.clock === 'wall' && clocks.clientStepUs === null);
}

/** Clocks that nobody steps: where a time service does, it slews from then on; else the people and tools that did leave it. */
export function slewing(system: System): Change {
  const { clocks, client } = system;
  const onClients = client.policy.habits.clock === 'wall';
  const after = { ...system, clocks: { ...clocks, nodeStepUs: 0, clientStepUs: 0 } };
  const where = `on nodes${onClients ? ' and on the machines of clients' : ''}`;
  return {
    id: 'slew',
    title: stepsAtWill(system)
      ? `${slewTitle(system)}, on nodes and on the machines of clients: no lock withstands steps of any size`
      : `set no clock during a lock, ${where}: without steps the client gives up enough for clock errors as it is (if nobody sets any: --steps 0 needs no such change)`,
    lines: chronyLines(after),
    after,
  };
}

/** What keeps clocks from being wrong by more than a system says. */
export function chronyLines({ clocks, nodes, client }: System): Lines[] {
  const { driftPpm, nodeStepUs, clientStepUs } = clocks;
  // The lines are the same on every machine.
  const stepUs = Math.min(nodeStepUs ?? 0, client.policy.habits.clock === 'wall' ? (clientStepUs ?? 0) : Infinity);
  return mergedLines([slewLines(driftPpm, stepUs), ...nodes.flatMap(clockOrderLines)]);
}

/** What chrony is to do with clocks, with its cost. */
export function slewTitle({ clocks: { driftPpm }, nodes }: System): string {
  const first = nodes.every(({ supervisor }) => supervisor === 'managed')
    ? 'what locks starts'
    : 'Redis and what locks start';
  return `have chrony step clocks only as it starts, before ${first}, and from then on slew them by at most ${slewRatePpm(driftPpm)} ppm (${slewCost(driftPpm)})`;
}

/** Why a lock gives up more than clocks need that nobody steps; empty where it does not. */
function setByPeople({ clocks, client }: System): string {
  const us = Math.max(clocks.nodeStepUs ?? 0, client.policy.habits.clock === 'wall' ? (clocks.clientStepUs ?? 0) : 0);
  return us === 0
    ? ''
    : `; chronyd steps only as it starts, but --steps says that people or tools set clocks by up to ${inWords(us)}`;
}

/** The least allowance that its client can be given and that is enough; `null` where it has no such option. */
export function allowing(system: System): Change | null {
  const figure = synthesize(system, ['allowance']).allowance;
  const least = figure ? withAllowance(system, figure.least) : null;
  if (!figure || least === null || isShared(stressOf(least))) return null;
  const rounded = withDrift(system, roundedUp(least.client.policy.settings.driftPpm));
  // A lock may be too short for more than the least.
  const after = !isShared(stressOf(rounded)) && isHad(workStressOf(rounded)) ? rounded : least;
  const { policy, ttlMs } = after.client;
  const gives = inWords(driftAllowanceUs(policy, 1000 * ttlMs));
  return {
    id: 'allowance',
    title: `give up ${gives} of each lock for clock errors ${exactly(figure)}: drift factor ${formatFactor(policy.settings.driftPpm)}${setByPeople(system)}`,
    lines: [clientLines(after)],
    after,
    figure,
  };
}

/** The lines where the client is asked for its locks, with all that is set by then. */
export function clientLines(system: System): Lines {
  return { file: libraryOf(system.client.policy).file, lines: acquisitionLines(system) };
}

/** One try a call, and a loop around it: of a client that has one token for all tries of a call, where connections reorder. */
export function ownTokens(system: System): Change | null {
  const { tryOnce } = libraryOf(system.client.policy);
  if (tryOnce === undefined || lateReleaseOf(system) === null) return null;
  const after = withPolicy(system, withOwnTokens(system.client.policy));
  return {
    id: 'own-tokens',
    title: `ask once a call (${tryOnce}) and try again yourself: then a release of one try that comes late cannot delete the keys of the next`,
    lines: [clientLines(after)],
    after,
  };
}

/** No lock is worth waiting for longer than this, ms. */
const LONGEST_TTL_MS = 600_000;

/** The TTL from which on the allowance of the client as it is covers the clock errors; `null` where none does. */
export function longerForClocks(system: System): Change | null {
  const safe = (ttlMs: number): boolean => !isShared(stressOf(withTtl(system, ttlMs)));
  if (!safe(LONGEST_TTL_MS)) return null;
  let [low, high] = [system.client.ttlMs, LONGEST_TTL_MS];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (safe(middle)) high = middle;
    else low = middle;
  }
  const rounded = roundedUp(high);
  const ttlMs = rounded <= LONGEST_TTL_MS && safe(rounded) ? rounded : high;
  const title = `lock for ${inWords(1000 * ttlMs)} (at least ${formatDurationMs(1000 * high)} ms): its allowance grows with the TTL, and covers the clock errors then`;
  return ttlChange(system, ttlMs, title);
}

/** A TTL that is long enough for the work and a pause before its last write. */
export function longerForWork(system: System): Change | null {
  const figure = synthesize(system, ['ttl']).ttl;
  if (!figure || figure.least > 1000 * LONGEST_TTL_MS) return null;
  const ttlMs = Math.max(system.client.ttlMs, roundedUp(figure.least / 1000));
  const longest = `at least ${formatDurationMs(figure.least)} ms${silenceWords(system)}`;
  const title = `lock for ${inWords(1000 * ttlMs)}: the votes, the work, a pause and the way of the last write fit into it (${longest})`;
  return { ...ttlChange(system, ttlMs, title), figure };
}

function ttlChange(system: System, ttlMs: number, title: string): Change {
  const after = withTtl(system, ttlMs);
  return { id: 'ttl', title, lines: [clientLines(after)], after };
}

function withNodes(system: System, change: (node: SystemNode) => SystemNode): System {
  return { ...system, nodes: system.nodes.map(change) };
}

/** Nodes that keep their votes while they run. */
export function keeping(system: System): Change[] {
  const changes: Change[] = [];
  if (system.nodes.some(({ evicts }) => evicts)) {
    changes.push({
      id: 'no-eviction',
      title: 'let no node evict keys',
      lines: [noEvictionLines()],
      after: withNodes(system, (node) => ({ ...node, evicts: false })),
    });
  }
  const replicated = system.nodes.filter(({ failoverLagUs }) => failoverLagUs !== null);
  if (replicated.length > 0 && replicated.every(({ supervisor }) => supervisor !== 'managed')) {
    const base = changes.at(-1)?.after ?? system;
    changes.push({
      id: 'no-promotion',
      title: 'let no replica take over: it lacks the last votes of its primary',
      lines: [noPromotionLines()],
      after: withNodes(base, (node) => ({ ...node, failoverLagUs: null })),
    });
  }
  return changes;
}

/** An fsync before each answer, where every node that loses votes in a restart keeps its disk. */
export function syncing(system: System): Change | null {
  const losing = system.nodes.filter((node) => restartLoss(node) !== null);
  if (losing.length === 0 || losing.some((it) => !it.diskKept || it.supervisor === 'managed')) return null;
  return {
    id: 'fsync',
    title: 'have each node write a vote to its disk before it answers (a crash costs none, each vote an fsync)',
    lines: [fsyncLines()],
    after: withNodes(system, (node) => (restartLoss(node) === null ? node : { ...node, persistence: 'always' })),
  };
}

/** The least restart delay, where the supervisor of every node that loses votes can hold it back. */
export function holdingBack(system: System): Change | null {
  const figure = synthesize(system, ['restart-delay'])['restart-delay'];
  if (!figure) return null;
  const losing = system.nodes.filter((node) => restartLoss(node) !== null);
  const delayUs = roundedUp(figure.least, 1000);
  const lines = losing.map((node) => holdBackLines(node, delayUs));
  if (lines.length === 0 || lines.includes(null)) return null;
  return {
    id: 'restart-delay',
    title: `${inWords(1000 * system.client.ttlMs)} has to be the longest TTL of any lock on these nodes: let a stopped node serve again after ${inWords(delayUs)} ${exactly(figure)}, when every lock that it voted for is over`,
    lines: mergedLines(lines.flatMap((it) => it ?? [])),
    after: withNodes(system, (node) =>
      restartLoss(node) === null || node.restartUs === null
        ? node
        : { ...node, restartUs: Math.max(delayUs, node.restartUs) },
    ),
    figure,
  };
}

/** A look at what is left of the lock before each write; `null` where the lock never has so much left. */
export function guarding(system: System): Change | null {
  const figure = synthesize(system, ['guard']).guard;
  if (!figure) return null;
  const library = libraryOf(system.client.policy);
  const guarded = (guardUs: number): System => ({ ...system, client: { ...system.client, guardUs } });
  const [rounded, whole] = [roundedUp(figure.least, 1000), 1000 * Math.ceil(figure.least / 1000)];
  // Of a short lock there may never be more left than the least.
  const write: Write = { kind: 'guarded', guardUs: rounded, way: wayOf(system) };
  const guardUs = writeSchedule(workStressOf(system), write) === null ? whole : rounded;
  const after = guarded(guardUs);
  return {
    id: 'guard',
    title: `write only with ${inWords(guardUs)} of the lock left ${exactly(figure)}: a pause and the way of the write fit into it`,
    // Where the lock is taken, its end is taken down, which the guard looks at.
    lines: [
      clientLines(after),
      {
        file: 'right before each write to the protected resource',
        lines: library.guard(guardUs / 1000, validMs(after.client)),
      },
    ],
    after,
    figure,
  };
}

/** Fencing tokens, for a client that has them and a resource that compares them. */
export function fencing(system: System): Change | null {
  const library = libraryOf(system.client.policy);
  if (!library.fencing || !system.resource.checksToken) return null;
  const after = withPolicy(system, policyWith({ settings: { fencing: true } }, system.client.policy));
  return {
    id: 'fencing',
    title: 'give each write its fencing token, which the resource compares: then no pause does harm',
    lines: [clientLines(after)],
    after,
  };
}

/** Whether clocks alone break its lock. */
export function clocksBreak(system: System): boolean {
  return attackOf(stressOf(system)).overlap;
}
