import { driftAllowanceUs, quorumOf } from '../deviations/index.js';
import { formatDurationMs } from '../scenarios/duration.js';
import { formatCount, formatPercent } from '../text/format.js';
import type { Advice, Alternative } from './advice.js';
import { type Change, chronyLines, clientLines, slewTitle, stepsAtWill } from './changes.js';
import type { Figure } from './figures.js';
import type { Hazard } from './hazards.js';
import { type LateRelease, lateReleaseOf } from './late-release.js';
import { libraryOf } from './libraries.js';
import { firstOnce, type Lines, mergedLines } from './lines.js';
import { silenceOf } from './silence.js';
import { type LossReason, lossesOf, restartLoss } from './stress-of.js';
import type { System } from './system.js';
import type { Unknown } from './unknowns.js';

/** The verdict of an advice, as it stands first. */
export function verdictWords(advice: Advice): string {
  const { verdict } = advice;
  const condition = verdict === 'not' ? null : conditionOf(advice);
  const words = { safe: 'safe', 'safe-if': 'not safe yet: safe with the changes below', not: 'not safe' }[verdict];
  return condition === null ? words : `${words}, ${condition}`;
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
const UNKNOWN_WORDS: Readonly<Record<Unknown, string>> = {
  ttl: 'TTL',
  allowance: 'drift allowance',
  'restart-delay': 'restart delay',
  votes: 'votes to wait for',
  guard: 'guard before writes',
};

/** A figure by name, with the nodes that may be silent where that makes a difference to it. */
export function figureName(unknown: Unknown, system: System): string {
  if (unknown !== 'ttl') return UNKNOWN_WORDS[unknown];
  const { nodes: silent, lacks } = silenceOf(system.client.policy, system.nodes.length);
  if (lacks !== null) return 'TTL, all nodes up';
  return silent === 0 ? UNKNOWN_WORDS.ttl : `TTL, ${silent} of ${system.nodes.length} silent`;
}

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
  const { title } = libraryOf(client.policy);
  const release = lateReleaseOf(system);
  if (release !== null)
    return `a late release of one try may delete the keys of the next: messages overtake each other, and ${title} uses one token for all tries of a call (${lateness(release, system)})`;
  return `${title} lets two clients hold the lock at once, by itself`;
}

/** How late a release has to be, beside what the description says of messages. */
function lateness({ lateUs }: LateRelease, { network }: System): string {
  const late = `it takes a release that arrives after ${time(1000 * Math.ceil(lateUs / 1000))}`;
  return lateUs <= network.mostUs
    ? late
    : `${late}, later than the ${time(network.mostUs)} described: TCP resends a lost packet as late as that`;
}

/** On what a verdict depends that no line makes sure of, as the end of a sentence; `null` where there is nothing. */
export function conditionOf({ advised }: Advice): string | null {
  const { network } = advised;
  if (network.reordering) return null;
  const other: System = { ...advised, network: { ...network, reordering: true } };
  return lateReleaseOf(other) === null ? null : 'if messages of a client to a node keep their order';
}

/** What no setting of hers prevents. */
export function notCovered(advice: Advice): string[] {
  const { resource, client, work } = advice.advised;
  const fenced = resource.checksToken && client.policy.settings.fencing;
  const { caution, title } = libraryOf(client.policy);
  return [
    ...(fenced || !work.writes
      ? []
      : [
          'A pause or a delay that is longer than assumed: only a resource that compares fencing tokens withstands any.',
        ]),
    ...(conditionOf(advice) === null
      ? []
      : [
          `${title} uses one token for all tries of a call. Where messages overtake each other (a pool of connections, a reconnect), a late release of one try can delete the keys of the next; see replay S39, and what --reordering advises.`,
        ]),
    ...(caution === undefined ? [] : [caution]),
  ];
}

/** The result of the search for what the adversaries do not try. */
export function searchWords({ search, verdict, remaining, changes }: Advice): string | null {
  const { runs, counterexample } = search;
  if (runs === 0) return null;
  const searched = `Searched ${formatCount(runs)} random histories${changes.length === 0 ? '' : ' with the changes in place'}`;
  if (counterexample !== null) return `${searched}: in one of them two clients held the lock.`;
  if (verdict !== 'not') return `${searched}: in none two clients held the lock.`;
  const what = remaining.every(({ breaks }) => breaks !== 'mutual-exclusion')
    ? 'it looks for two holders only'
    : 'chance rarely meets it';
  return `${searched}, and met no second holder. That does not make it safe: what remains is shown by a run that was built for it, not drawn (${what}).`;
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
  return remaining.length === 0 ? [] : [`What would: ${[...others, ...tokens].join('; or ')}.`];
}

/** What a change costs that holds nodes back. */
export function costsOf({ changes, system }: Advice): string[] {
  if (!changes.some(({ id }) => id === 'restart-delay')) return [];
  const { nodes, client } = system;
  const spare = nodes.length - Math.ceil(quorumOf(client.policy, nodes.length));
  const away = spare === 0 ? 'any of them' : `more than ${spare} of ${nodes.length}`;
  return [`While a node is held back it is away; while ${away} are, nobody gets a lock.`];
}

/** The least value, what comes one step below it, and what the system has of it with the changes in place. */
export function figureWords(
  figure: Figure,
  advice: Advice,
): { readonly least: string; readonly below: string; readonly inPlace: string } {
  const { of, violated } = figure;
  const value = valueIn(advice.advised, of);
  const inPlace = value === null ? 'not set' : valueWords(of, value);
  return {
    least: valueWords(of, figure.least),
    below: violated === null ? '–' : valueWords(of, violated.value),
    inPlace: isNeeded(figure, advice) ? inPlace : 'not needed here',
  };
}

/** Whether the system with the changes in place rests on a figure: a guard, a TTL and tokens each do without the others. */
export function isNeeded({ of, least }: Figure, { advised, remaining }: Advice): boolean {
  const value = valueIn(advised, of);
  if (of === 'restart-delay') return value !== null;
  const isOfWrites = of === 'ttl' || of === 'guard';
  if (!isOfWrites || remaining.some(({ id }) => id === 'writes')) return true;
  return value !== null && value >= least;
}

/** What a system has of what can be asked for; `null` where it does without. */
export function valueIn(system: System, unknown: Unknown): number | null {
  const { client, nodes } = system;
  const { policy, ttlMs } = client;
  switch (unknown) {
    case 'ttl':
      return 1000 * ttlMs;
    case 'guard':
      return client.guardUs;
    case 'restart-delay': {
      const losing = nodes.filter((node) => restartLoss(node) !== null);
      const soonest = losing.flatMap(({ restartUs }) => (restartUs === null ? [] : [restartUs]));
      return soonest.length === 0 ? null : Math.min(...soonest);
    }
    case 'allowance':
      return Math.max(0, driftAllowanceUs(policy, 1000 * ttlMs));
    case 'votes':
      return Math.ceil(quorumOf(policy, nodes.length));
  }
}

/** All lines of an advice, a file once, and those of the client as it is in the end: the advice rests on the deadline in them. */
export function linesOf({ changes, advised }: Advice): Lines[] {
  if (changes.length === 0) return [];
  return mergedLines([...changes.flatMap(({ lines }) => lines), clientLines(advised)]);
}

/**
 * What keeps clocks as the advice takes them, which no default does: in one sentence, with its lines; `null` where a change
 * says so.
 */
export function clockLinesOf(advice: Advice): { readonly title: string; readonly lines: readonly Lines[] } | null {
  const { system, advised, changes } = advice;
  if (stepsAtWill(system) && changes.some(({ id }) => id === 'slew')) return null;
  const isOwn = advised.nodes.some(({ supervisor }) => supervisor !== 'managed');
  return {
    title: `unless it is so already, ${slewTitle(advised)}: clocks of ${isOwn ? 'nodes and clients' : 'clients'} have to run right to ${formatPercent(advised.clocks.driftPpm)}`,
    lines: chronyLines(advised),
  };
}

/** All that is to be done, in its order: clocks, and each change. */
export function stepsOf(advice: Advice): { readonly id: Change['id'] | 'clocks'; readonly title: string }[] {
  const clocks = clockLinesOf(advice);
  return [...(clocks === null ? [] : [{ id: 'clocks', title: clocks.title } as const]), ...advice.changes];
}

/** All lines of an advice with those for clocks, in the order of {@link stepsOf}, and what comes before them once. */
export function allLinesOf(advice: Advice): Lines[] {
  return firstOnce(mergedLines([...(clockLinesOf(advice)?.lines ?? []), ...linesOf(advice)]));
}

/** In which order, and how to check it afterwards; nothing where there is nothing to change. */
export function rolloutOf({ changes }: Advice, command: string): string[] {
  if (changes.length === 0) return [];
  const ids = changes.map(({ id }) => id);
  const last = ids.includes('fencing') ? ' The resource refuses writes without a token last of all.' : '';
  return [
    `In this order, one machine after the other, no step is less safe than now. Old and new clients may run side by side; it is safe when the last old one has stopped.${last}`,
    `To check it then: this command with --save-advised advised.json, and ${command} advised.json --check --redis redis://… (reads persistence and eviction from the nodes)`,
  ];
}

/** The lines that are otherwise if an alternative is taken. */
export function linesOfAlternative(advice: Advice, alternative: Alternative): Lines[] {
  const written = ({ file, lines }: Lines): string => JSON.stringify([file, lines]);
  const usual = allLinesOf(advice).map(written);
  return allLinesWith(alternative).filter((it) => !usual.includes(written(it)));
}

/** The files of an advice that are not to be if an alternative is taken. */
export function leftOutBy(advice: Advice, alternative: Alternative): Lines[] {
  const files = allLinesWith(alternative).map(({ file }) => file);
  return linesOf(advice).filter(({ file }) => !files.includes(file));
}

function allLinesWith({ change, before, others }: Alternative): Lines[] {
  const { after } = others.at(-1) ?? change;
  return mergedLines([...[...before, change, ...others].flatMap(({ lines }) => lines), clientLines(after)]);
}

/** What is said above the lines of an alternative. */
export function alternativeWords(advice: Advice, { insteadOf, change }: Alternative): string {
  return `In place of ${1 + stepsOf(advice).findIndex(({ id }) => id === insteadOf)}: ${change.title}`;
}
