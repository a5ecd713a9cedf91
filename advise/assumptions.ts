import { formatDurationMs } from '../scenarios/duration.js';
import { greatest } from '../search/safety-map/bisect.js';
import { formatPercent } from '../text/format.js';
import { writesHold } from './hazards.js';
import { libraryOf } from './libraries.js';
import { inWords } from './lines.js';
import { silenceOf, silenceWords } from './silence.js';
import { restartLoss } from './stress-of.js';
import type { System, SystemNode } from './system.js';

/** One thing that an advice rests on. */
export interface Assumption {
  /** How the system is described otherwise: a flag of `advise`, or a field of its file. */
  readonly field: string;
  readonly says: string;
  /** Whether nobody said it, and what is otherwise may be worse. */
  readonly isDefault: boolean;
}

/** Its field, what it says, and the fields of a description whose defaults are not the worst. */
type Row = readonly [field: string, says: string, ...paths: string[]];

/** What an advice rests on: what the description says, or its defaults. */
export function assumptionsOf(system: System): Assumption[] {
  const rows = [
    ...ofClients(system),
    ...ofSilence(system),
    ...ofClocks(system),
    ...ofNetwork(system),
    ...ofNodes(system),
  ];
  return rows.map(([field, says, ...paths]) => ({
    field,
    says,
    isDefault: paths.some((path) => system.defaulted.includes(path)),
  }));
}

function ofClients(system: System): Row[] {
  const { pauses, work } = system;
  const stops =
    pauses.processUs === 0
      ? 'no process that locks is expected to stop (GC, throttling, a frozen container, a virtual machine that waits for its CPU)'
      : `a process that locks may stop for up to ${inWords(pauses.processUs)}`;
  const sleeps =
    pauses.suspendUs === 0
      ? 'no machine of a client sleeps'
      : `a machine of a client may sleep for up to ${inWords(pauses.suspendUs)}`;
  const halts =
    pauses.vmUs === 0
      ? 'no virtual machine is halted, as by a live migration (pauses.vm of a file)'
      : `a virtual machine may be halted for up to ${inWords(pauses.vmUs)}`;
  return [
    ['--pause', `${stops}${roomWords(system)}`, 'pauses.process'],
    ['pauses', `${sleeps}, and ${halts}`, 'pauses.suspend', 'pauses.vm'],
    ['--work', `the work takes up to ${inWords(work.longestUs)}`, 'work.longest'],
  ];
}

/** What room there is for stops that nobody expects. */
function roomWords(system: System): string {
  const us = stopsOf(system);
  if (us === null) return '';
  const room = formatDurationMs(1000 * Math.floor(us / 1000));
  if (system.client.guardUs !== null)
    return `; the lock withstands a stop of up to ${room} ms between a look and its write: more takes a longer guard`;
  const isHeldBack = system.nodes.some((node) => restartLoss(node) !== null && node.restartUs !== null);
  const longer = isHeldBack ? 'TTL, and a restart delay that is as much longer' : 'TTL';
  return `; the lock withstands stops of up to ${room} ms in all during the work${silenceWords(system)}: more takes a longer ${longer}`;
}

/** How long clients may stop, in all, before a write comes too late, µs; `null` where that makes no difference. */
export function stopsOf(system: System): number | null {
  const holds = (processUs: number): boolean => writesHold({ ...system, pauses: { ...system.pauses, processUs } });
  const mostUs = 2000 * system.client.ttlMs;
  return !holds(0) || holds(mostUs) ? null : greatest(0, mostUs, holds);
}

/** How long a client waits for a node that does not answer. */
function ofSilence({ client, nodes }: System): Row[] {
  const { policy, ttlMs } = client;
  const { lacks, waits } = silenceOf(policy, nodes.length);
  const { title, timeout, timeoutHint = '' } = libraryOf(policy);
  if (!waits) return [];
  const hint = timeoutHint === '' ? '' : `; ${timeoutHint}`;
  if (lacks === 'lock') return [['--library', `${title} gets no lock while a node does not answer`]];
  if (lacks === 'time-out') {
    const unknown = `${title} has no time-out for a node that does not answer: it waits as long as its connection does, of which the figures know nothing${hint}`;
    return [['--node-timeout', unknown, 'client.nodeTimeout']];
  }
  const timeoutUs = policy.settings.nodeTimeoutUs ?? 0;
  const share = timeout === undefined ? '' : ` (${formatPercent(Math.round((timeoutUs * 1000) / ttlMs))} of the TTL)`;
  const says = `${title} waits up to ${inWords(timeoutUs)} for a node that does not answer${share}${hint}`;
  return [['--node-timeout', says, 'client.nodeTimeout']];
}

function ofClocks({ clocks, client }: System): Row[] {
  const { driftPpm, nodeStepUs, clientStepUs } = clocks;
  const step = (us: number | null): string =>
    us === null ? 'set by any amount' : us === 0 ? 'never set' : `set by up to ${inWords(us)}`;
  const wall = client.policy.habits.clock === 'wall' ? `, and those of clients ${step(clientStepUs)} back` : '';
  return [
    ['--drift', `clocks of nodes and clients run right to ${formatPercent(driftPpm)}`, 'clocks.drift'],
    ['--steps', `during a lock, clocks of nodes are ${step(nodeStepUs)}${wall}`, 'clocks.steps'],
  ];
}

function ofNetwork({ network, client }: System): Row[] {
  const { reordering, mostUs, writeUs } = network;
  const { title, pooled } = libraryOf(client.policy);
  const why = pooled === reordering ? `: ${title} has ${pooled ? 'a pool of connections' : 'one connection'}` : '';
  return [
    ['--latency', `messages take up to ${inWords(mostUs)}`, 'network.most'],
    ['network.write', `a write takes up to ${inWords(writeUs)} to the resource`, 'network.write'],
    reordering
      ? ['--no-reordering', `messages of a client to a node may overtake each other, however late that makes one${why}`]
      : ['--reordering', `messages of a client to a node keep their order${why}`, 'network.reordering'],
  ];
}

/** What is not said of nodes is the worst, but for the first three. */
function ofNodes({ nodes, atOnce }: System): Row[] {
  const some = (is: (node: SystemNode) => boolean): boolean => nodes.some(is);
  const rows: (Row | false)[] = [
    !some(({ evicts }) => evicts) && [
      'nodes.evicts',
      'no node evicts keys ("maxmemory-policy noeviction")',
      'nodes.evicts',
    ],
    !some((it) => it.failoverLagUs !== null) && [
      '--failover',
      'no replica takes over (Sentinel, Cluster)',
      'nodes.failover',
    ],
    some((it) => it.persistence !== 'none' && it.diskKept) && ['nodes.disk', 'a restart keeps the disk', 'nodes.disk'],
    ['--at-once', `${atOnce} of ${nodes.length} nodes may fail or have their clock set during one lock`],
    some(({ powerLoss }) => powerLoss)
      ? ['--no-power-loss', 'machines of nodes may be reset or lose their power']
      : ['--power-loss', 'no machine of a node is reset or loses its power'],
    some((it) => it.persistence === 'everysec' || it.persistence === 'always') && [
      '--persistence',
      'everysec and always mean "appendonly yes" in redis.conf, which is "no" unless it is set',
    ],
  ];
  return rows.filter((it) => it !== false);
}
