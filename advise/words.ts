import { quorumOf } from '../deviations/index.js';
import { formatDurationMs } from '../scenarios/duration.js';
import { formatList, formatPercent, plural } from '../text/format.js';
import type { Advice } from './advice.js';
import type { Figure } from './figures.js';
import type { Hazard } from './hazards.js';
import { libraryOf } from './libraries.js';
import type { Lines } from './lines.js';
import { type LossReason, lossesOf } from './stress-of.js';
import type { System } from './system.js';
import type { Unknown } from './unknowns.js';

/** The verdict of an advice, as it stands first. */
export function verdictWords({ verdict }: Advice): string {
  return { safe: 'safe', 'safe-if': 'safe if', not: 'not safe' }[verdict];
}

/** A system in one line. */
export function subjectOf({ name, client }: System): string {
  return `${name} (${libraryOf(client.policy).title}, TTL ${time(1000 * client.ttlMs)})`;
}

/** µs, as people read them. */
export function time(us: number): string {
  return us !== 0 && us % 1_000_000 === 0 ? `${formatDurationMs(us / 1000)} s` : `${formatDurationMs(us)} ms`;
}

/** A value of what is asked for, with its unit. */
export function valueWords(unknown: Unknown, value: number): string {
  return unknown === 'votes' ? `${value}` : time(value);
}

/** What can be asked for, by name. */
export const UNKNOWN_WORDS: Readonly<Record<Unknown, string>> = {
  ttl: 'TTL',
  allowance: 'drift allowance',
  'restart-delay': 'restart delay',
  votes: 'votes to wait for',
  guard: 'guard before writes',
};

const LOSS_WORDS: Readonly<Record<LossReason, string>> = {
  evicts: 'a node may evict keys of the lock',
  'fails over': 'a replica may take over without the last votes',
  'restarts without a disk': 'a node is back, empty, before its votes are over',
  'restarts on a new disk': 'a node is back on an empty disk before its votes are over',
  'restarts with a dump': 'a node is back with an old dump before its votes are over',
  'restarts with fsync every second': 'a node is back without its last votes (everysec) before they are over',
};

/** What is wrong, in one sentence without its full stop. */
export function hazardWords({ id }: Hazard, system: System): string {
  const { client, clocks } = system;
  if (id === 'memory') {
    const reasons = new Set(system.nodes.flatMap((node) => lossesOf(node).map(({ reason }) => LOSS_WORDS[reason])));
    return [...reasons].join('; ');
  }
  if (id === 'clocks') {
    const stepped = clocks.nodeStepUs !== 0 || (client.policy.habits.clock === 'wall' && clocks.clientStepUs !== 0);
    return `clocks may be off by more than the lock gives up for them${stepped ? ' (drift and steps)' : ''}`;
  }
  if (id === 'writes') return 'a write may arrive when the lock is over: the work, a pause and its way take too long';
  if (id === 'availability')
    return 'the lock cannot be had: votes take longer than the client waits for a node, or than the lock is valid';
  return `${libraryOf(client.policy).title} lets two clients hold the lock at once, by itself`;
}

/** What an advice rests on: what the description says. */
export function assumptionsOf({ nodes, atOnce, clocks, pauses, network, work, client }: System): string[] {
  const step = (us: number | null): string =>
    us === null ? 'set by any amount' : us === 0 ? 'never set' : `set by up to ${time(us)}`;
  const wall = client.policy.habits.clock === 'wall' ? `, those of clients ${step(clocks.clientStepUs)} back` : '';
  const stops = [
    ...(pauses.suspendUs > 0 ? [`machines of clients sleep up to ${time(pauses.suspendUs)}`] : []),
    ...(pauses.vmUs > 0 ? [`virtual machines are paused up to ${time(pauses.vmUs)}`] : []),
  ];
  const order = network.reordering ? 'may overtake each other' : 'keep their order on the way to a node';
  return [
    `clocks are off by up to ${formatPercent(clocks.driftPpm)}; those of nodes are ${step(clocks.nodeStepUs)} during a lock${wall}`,
    `up to ${atOnce} of ${plural(nodes.length, 'node')} fail or have their clock set during one lock`,
    `processes of clients stop for up to ${time(pauses.processUs)}${stops.map((it) => `, ${it}`).join('')}`,
    `messages ${order}, and take up to ${time(network.mostUs)}, a write up to ${time(network.writeUs)}; the work up to ${time(work.longestUs)}`,
  ];
}

/** What no setting of hers prevents. */
export function notCovered({ resource, client, work }: System): string[] {
  const fenced = resource.checksToken && client.policy.settings.fencing;
  const { caution } = libraryOf(client.policy);
  return [
    ...(fenced || !work.writes
      ? []
      : [
          'A pause or a delay that is longer than assumed: only a resource that compares fencing tokens withstands any.',
        ]),
    ...(caution === undefined ? [] : [caution]),
  ];
}

/** What else there is where no setting suffices. */
export function waysOut({ remaining, system }: Advice): string[] {
  const ids = new Set(remaining.map(({ id }) => id));
  const others = [
    ...(ids.has('memory') ? ['nodes whose restarts and failovers are yours to hold back'] : []),
    ...(ids.has('client') ? ['a client with a token for each try, such as lockstep-redlock'] : []),
    ...(ids.has('clocks')
      ? ['a client that allows for clock errors, such as lockstep-redlock, redsync 4 or node-redlock 4']
      : []),
    ...(ids.has('availability') ? ['a longer TTL, or a nearer network'] : []),
    ...(ids.has('writes') ? ['shorter work under the lock'] : []),
  ];
  const tokens = system.resource.checksToken ? [] : ['a resource that compares fencing tokens'];
  return remaining.length === 0 ? [] : [`What would: ${formatList([...others, ...tokens], 'or')}.`];
}

/** What a change costs that holds nodes back. */
export function costsOf({ changes, system }: Advice): string[] {
  if (!changes.some(({ id }) => id === 'restart-delay')) return [];
  const { nodes, client } = system;
  const spare = nodes.length - Math.ceil(quorumOf(client.policy, nodes.length));
  const away = spare === 0 ? 'any of them' : `more than ${spare} of ${nodes.length}`;
  return [`While a node is held back it is away; while ${away} are, nobody gets a lock.`];
}

/** The least value and what comes one step below it. */
export function figureWords(figure: Figure): { readonly least: string; readonly below: string } {
  const { of, violated } = figure;
  return {
    least: valueWords(of, figure.least),
    below: violated === null ? '–' : valueWords(of, violated.value),
  };
}

/**
 * All lines of an advice, a file once: what is said of the client in several changes is one place in its code, with the last
 * TTL and factor.
 */
export function linesOf({ changes }: Advice): Lines[] {
  const byFile = new Map<string, Lines>();
  for (const { lines } of changes) {
    for (const part of lines) {
      const before = byFile.get(part.file)?.lines ?? [];
      const isConf = part.file.startsWith('redis.conf');
      byFile.set(part.file, isConf ? { ...part, lines: [...new Set([...before, ...part.lines])] } : part);
    }
  }
  return [...byFile.values()];
}
