import { formatDurationMs } from '../scenarios/duration.js';
import { greatest } from '../search/frontier/bisect.js';
import { formatPercent } from '../text/format.js';
import { writesHold } from './hazards.js';
import { libraryOf } from './libraries.js';
import { inWords, slewRate, USUAL_SLEW } from './lines.js';
import { restartLoss } from './stress-of.js';
import type { System, SystemNode } from './system.js';

/** One thing that an advice rests on. */
export interface Assumption {
  /** How the system is described otherwise: a flag of `advise`, or a field of its file. */
  readonly field: string;
  readonly says: string;
  /** Whether it is taken because nobody said it, and what is otherwise may be worse. */
  readonly isTaken: boolean;
}

/** What an advice rests on: what the description says, or what is taken where it says nothing. */
export function assumptionsOf(system: System): Assumption[] {
  return [...ofClients(system), ...ofClocks(system), ...ofNetwork(system), ...ofNodes(system)];
}

/** A default is taken for granted, unless it is the worst there is. */
function assumption({ defaulted }: System, path: string, field: string, says: string): Assumption {
  return { field, says, isTaken: defaulted.includes(path) };
}

function ofClients(system: System): Assumption[] {
  const { pauses, work } = system;
  const stops =
    pauses.processUs === 0
      ? 'no process that locks is expected to stop (GC, throttling, a frozen container)'
      : `a process that locks may stop for up to ${inWords(pauses.processUs)}`;
  const asleep = [
    pauses.suspendUs === 0
      ? 'no machine of a client sleeps'
      : `the machine of a client sleeps for up to ${inWords(pauses.suspendUs)}`,
    pauses.vmUs === 0
      ? 'no virtual machine of one is halted (moved, copied)'
      : `its virtual machine is halted for up to ${inWords(pauses.vmUs)}`,
  ];
  const isTold = !['pauses.suspend', 'pauses.vm'].every((path) => system.defaulted.includes(path));
  return [
    assumption(system, 'pauses.process', '--pause', `${stops}${roomWords(system)}`),
    { field: 'pauses.vm', says: asleep.join(', '), isTaken: !isTold },
    assumption(system, 'work.longest', '--work', `the work takes up to ${inWords(work.longestUs)}`),
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
  return `; the lock withstands stops of up to ${room} ms in all during the work: more takes a longer ${longer}`;
}

/** For how long its clients may be stopped, in all, before a write comes too late, µs; `null` where that does no harm, or is not what breaks it. */
export function stopsOf(system: System): number | null {
  const holds = (processUs: number): boolean => writesHold({ ...system, pauses: { ...system.pauses, processUs } });
  const mostUs = 2000 * system.client.ttlMs;
  return !holds(0) || holds(mostUs) ? null : greatest(0, mostUs, holds);
}

function ofClocks(system: System): Assumption[] {
  const { clocks, client } = system;
  const step = (us: number | null): string =>
    us === null ? 'set by any amount' : us === 0 ? 'never set' : `set by up to ${inWords(us)}`;
  const wall = client.policy.habits.clock === 'wall' ? `, and those of clients ${step(clocks.clientStepUs)} back` : '';
  const rate = `clocks of nodes and clients run right to ${formatPercent(clocks.driftPpm)}: with chrony, by "maxslewrate ${slewRate(clocks.driftPpm)}" (without it, it slews by up to ${USUAL_SLEW})`;
  const steps = `during a lock, clocks of nodes are ${step(clocks.nodeStepUs)}${wall}`;
  const kept =
    clocks.nodeStepUs === null
      ? ''
      : ': with chrony, by "makestep 1 0" (by Debian\'s "makestep 1 3" it steps by seconds as it starts)';
  return [
    assumption(system, 'clocks.drift', '--drift', rate),
    assumption(system, 'clocks.steps', '--steps', `${steps}${kept}`),
  ];
}

function ofNetwork(system: System): Assumption[] {
  const { network, client } = system;
  const { title, pooled } = libraryOf(client.policy);
  const order = network.reordering
    ? `messages of a client to a node may overtake each other, however late that makes one${pooled ? `: ${title} has a pool of connections` : ''}`
    : `messages of a client to a node keep their order${pooled ? '' : `: ${title} has one connection`}`;
  return [
    assumption(system, 'network.most', '--latency', `messages take up to ${inWords(network.mostUs)}`),
    assumption(
      system,
      'network.write',
      'network.write',
      `a write takes up to ${inWords(network.writeUs)} to the resource`,
    ),
    network.reordering
      ? { field: '--no-reordering', says: order, isTaken: false }
      : assumption(system, 'network.reordering', '--reordering', order),
  ];
}

function ofNodes(system: System): Assumption[] {
  const { nodes, atOnce } = system;
  const some = (is: (node: SystemNode) => boolean): boolean => nodes.some(is);
  const resets = some(({ powerLoss }) => powerLoss);
  const appends = some(({ persistence }) => persistence === 'everysec' || persistence === 'always');
  const kept = [
    ...(some(({ evicts }) => evicts)
      ? []
      : [['nodes.evicts', 'nodes.evicts', 'no node evicts keys ("maxmemory 0", or "maxmemory-policy noeviction")']]),
    ...(some(({ failoverLagUs }) => failoverLagUs !== null)
      ? []
      : [['nodes.failover', '--failover', 'no replica takes over from a node (Sentinel, Cluster)']]),
    ...(some((node) => node.persistence !== 'none' && node.diskKept)
      ? [['nodes.disk', 'nodes.disk', 'a node finds its disk again when it restarts']]
      : []),
  ];
  // What is not said of these is the worst.
  const said = [
    ['--at-once', `${atOnce} of ${nodes.length} nodes may fail or have their clock set during one lock`],
    resets
      ? ['--no-power-loss', 'machines of nodes may be reset or lose their power']
      : ['--power-loss', 'no machine of a node is reset or loses its power'],
    ...(appends
      ? [['--persistence', 'everysec and always mean "appendonly yes" in redis.conf, which is "no" unless it is set']]
      : []),
  ];
  return [
    ...kept.map(([path = '', field = '', says = '']) => assumption(system, path, field, says)),
    ...said.map(([field = '', says = '']) => ({ field, says, isTaken: false })),
  ];
}
