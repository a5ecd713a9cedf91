import { policyWith } from '../deviations/index.js';
import { attackOf, isShared } from './attacks.js';
import type { Figure } from './figures.js';
import { lateReleaseOf } from './late-release.js';
import { acquisitionLines, formatFactor, libraryOf, withOwnTokens } from './libraries.js';
import {
  fsyncLines,
  holdBackLines,
  type Lines,
  mergedLines,
  noEvictionLines,
  noPromotionLines,
  slewLines,
} from './lines.js';
import { restartLoss, stressOf } from './stress-of.js';
import { synthesize, withAllowance, withPolicy, withTtl } from './synthesis.js';
import type { System, SystemNode } from './system.js';

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

/** ms of µs, rounded up, as people write a duration in a sentence. */
export function inWords(us: number): string {
  const ms = Math.ceil(us / 1000);
  return ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`;
}

/** Clocks that are slewed and never stepped. */
export function slewing(system: System): Change {
  const onClients = system.client.policy.habits.clock === 'wall';
  return {
    id: 'slew',
    title: `have clocks slewed and never stepped, on nodes${onClients ? ' and on the machines of clients' : ''}`,
    lines: [slewLines(system.clocks.driftPpm)],
    after: { ...system, clocks: { ...system.clocks, nodeStepUs: 0, clientStepUs: 0 } },
  };
}

/** The least allowance that its client can be given and that is enough; `null` where it has no such option. */
export function allowing(system: System): Change | null {
  const figure = synthesize(system, ['allowance']).allowance;
  const after = figure ? withAllowance(system, figure.least) : null;
  if (!figure || after === null || isShared(stressOf(after))) return null;
  const factor = formatFactor(after.client.policy.settings.driftPpm);
  return {
    id: 'allowance',
    title: `give up ${inWords(figure.least)} of each lock for clock errors (drift factor ${factor})`,
    lines: [clientLines(after)],
    after,
    figure,
  };
}

/** The lines where the client is asked for its locks, with all that is set by then. */
export function clientLines({ client }: System): Lines {
  return { file: libraryOf(client.policy).file, lines: acquisitionLines(client.policy, client.ttlMs) };
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
  return ttlChange(
    system,
    high,
    `lock for ${inWords(1000 * high)}: its allowance grows with the TTL, and covers the clock errors then`,
  );
}

/** A TTL that is long enough for the work and a pause before its last write. */
export function longerForWork(system: System): Change | null {
  const figure = synthesize(system, ['ttl']).ttl;
  if (!figure || figure.least > 1000 * LONGEST_TTL_MS) return null;
  const ttlMs = Math.max(system.client.ttlMs, figure.least / 1000);
  const title = `lock for ${inWords(1000 * ttlMs)}: the work, a pause and the way of the last write fit into it`;
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
  const lines = losing.map((node) => holdBackLines(node, figure.least));
  if (lines.length === 0 || lines.includes(null)) return null;
  const delayUs = 1000 * Math.ceil(figure.least / 1000);
  return {
    id: 'restart-delay',
    title: `hold a node that has stopped back for ${inWords(delayUs)}, until every lock that it voted for is over`,
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
  const guardUs = 1000 * Math.ceil(figure.least / 1000);
  const library = libraryOf(system.client.policy);
  const { ttlMs } = system.client;
  const after = { ...system, client: { ...system.client, guardUs } };
  return {
    id: 'guard',
    title: `write only with ${inWords(guardUs)} of the lock left: a pause and the way of the write fit into it`,
    // Where the lock is taken, its end is taken down, which the guard looks at.
    lines: [
      clientLines(after),
      { file: 'right before each write to the protected resource', lines: library.guard(guardUs / 1000, ttlMs) },
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
