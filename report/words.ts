import {
  deviates,
  deviationNumber,
  type Policy,
  policyOf,
  policyWithTiming,
  quorumOf,
  REFERENCE,
  statedDrift,
} from '../deviations/index.js';
import type { Assumption } from '../properties/index.js';
import { type ClientPlan, formatDurationMs, type PropertyId, type Schedule } from '../scenarios/index.js';
import { nodeIndex, nodeName } from '../sim/index.js';
import { formatCount, formatList, formatPercent, plural } from '../text/format.js';

/** What a schedule that breaks an assumption of the lock does, in words. */
export const ASSUMPTION_WORDS: Readonly<Record<Assumption, string>> = {
  'clock-drift': 'clocks run apart by more than the drift allowance',
  'clock-step': 'a clock jumps or stops by more than the drift allowance',
  durability: 'a node that voted may be back without its key',
  counters: 'fewer than a quorum of nodes know their fencing counter at some time',
  'durable-failover': 'a replica takes over that may lack keys, or beside its master',
  'same-membership': 'clients do not all have the same nodes, each once, or the same keys',
  'bounded-write-delay': 'a write may be later than its check allows',
};

/** `mutual exclusion`. */
export function propertyLabel(property: PropertyId): string {
  return property.replaceAll('-', ' ').replace('quorum backed', 'quorum-backed').replace('owner only', 'owner-only');
}

const MOST_SPELLED = 4;

/** `n0 n1 n2`; runs of many are shortened: `n0–n6 n9`. */
export function nodeList(names: readonly string[]): string {
  if (names.length <= MOST_SPELLED) return names.join(' ');
  const indices = names.map(nodeIndex).sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < indices.length; ) {
    let j = i;
    while (indices[j + 1] === (indices[j] ?? 0) + 1) j++;
    parts.push(
      j - i < 2
        ? indices
            .slice(i, j + 1)
            .map(name)
            .join(' ')
        : `${name(indices[i])}–${name(indices[j])}`,
    );
    i = j + 1;
  }
  return parts.join(' ');
}

function name(index: number | undefined): string {
  return `n${index ?? '?'}`;
}

/** `n0 refuses`, `n0 n1 refuse`, `all refuse`. */
export function nodesDo(names: readonly string[], all: number, one: string, many: string): string {
  if (names.length === all && all > 1) return `all ${many}`;
  return `${nodeList(names)} ${names.length === 1 ? one : many}`;
}

/**
 * One line on what was run: `5 nodes, quorum 3, ttl 10 000 ms, drift 1 % + 2 ms, persistence none`. Of somebody else's
 * lock, nothing is said that it may do in another way.
 */
export function configLine(schedule: Schedule, lock: 'own' | 'foreign' = 'own'): string {
  const { cluster } = schedule;
  const policy = policyOf(schedule.policy);
  const drift = statedDrift(policy);
  const locks = schedule.clients.flatMap((client) => client.locks);
  const ttls = [...new Set(locks.map((lock) => lock.ttlMs))].sort((a, b) => a - b);
  const parts = [
    plural(cluster.nodes, 'node'),
    ...(lock === 'own'
      ? quorumWords(schedule.clients, policy, cluster.nodes)
      : [`majority ${quorumOf(policy, cluster.nodes)}`]),
    `ttl ${formatList(ttls.map(formatCount))} ms`,
    ...(lock === 'own' ? [`drift ${formatPercent(drift.driftPpm)} + ${formatDurationMs(drift.driftUs)} ms`] : []),
    `persistence ${cluster.persistence}`,
  ];
  if (lock === 'foreign') return parts.join(', ');
  if (policy.settings.votesWanted !== 'quorum') parts.push(`votes wanted ${policy.settings.votesWanted}`);
  parts.push(...clockWords(policy, REFERENCE));
  const stampUs = deviationNumber(policy, 'stamps-us');
  if (stampUs !== undefined) parts.push(`stamps of ${formatDurationMs(stampUs)} ms`);
  parts.push(...deadlineWords(policy, REFERENCE));
  if (policy.profile !== 'reference') parts.push(`policy ${policy.profile}`);
  if (cluster.scripts === 'by-hash') parts.push('scripts by their hash');
  for (const { id, timing } of schedule.clients) {
    const mine = policyWithTiming(policy, timing);
    const own = [...clockWords(mine, policy), ...deadlineWords(mine, policy)];
    if (own.length > 0) parts.push(`${id}: ${formatList(own)}`);
  }
  return parts.join(', ');
}

/** `quorum 3`; `c1 asks n0–n4 (quorum 3)` and the same of all others, where clients have lists of their own. */
function quorumWords(clients: readonly ClientPlan[], policy: Policy, nodes: number): string[] {
  if (clients.every((client) => client.nodes === undefined)) return [`quorum ${quorumOf(policy, nodes)}`];
  const all = Array.from({ length: nodes }, (_, i) => nodeName(i));
  return clients.map(
    ({ id, nodes: own = all }) => `${id} asks ${nodeList(own)} (quorum ${quorumOf(policy, own.length)})`,
  );
}

/** The clock that a client reads, where others read another one. */
function clockWords({ habits: { clock } }: Policy, others: Policy): string[] {
  return clock === others.habits.clock ? [] : [`${clock} clock`];
}

/** What a client makes of a validity, where others do that in another way. */
function deadlineWords(policy: Policy, others: Policy): string[] {
  const own = deadlineOf(policy);
  return own === deadlineOf(others) ? [] : [own];
}

function deadlineOf(policy: Policy): string {
  const lagUs = deviationNumber(policy, 'deadline-counted-after-us');
  if (lagUs === undefined) return deviates(policy, 'deadline-whole-ttl') ? 'whole-ttl deadline' : 'absolute deadline';
  return `relative validity${lagUs > 0 ? ` counted ${formatDurationMs(lagUs)} ms late` : ''}`;
}
