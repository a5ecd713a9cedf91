import { deviates } from '../deviations/index.js';
import { type Loss, type LossyDisk, type RestartClock, type Stress, weakestVotes } from './attacks.js';
import { silenceOf } from './silence.js';
import type { System, SystemNode } from './system.js';
import type { Way } from './writes.js';

/** All that a system expects of clocks, pauses and network, against its lock, with nodes that keep their votes. */
export function stressOf(system: System): Stress {
  const { client, clocks, pauses, network, nodes, atOnce } = system;
  const ttlUs = 1000 * client.ttlMs;
  return {
    policy: client.policy,
    ttlMs: client.ttlMs,
    nodes: nodes.length,
    ...weakestVotes(client.policy, nodes.length, atOnce),
    driftPpm: clocks.driftPpm,
    // Of clients that ask one node after the other, a rival may begin before a quorum is free: then only 0 is sure.
    latencyUs: deviates(client.policy, 'asks-in-turn') ? 0 : network.leastUs,
    nodeStepUs: clocks.nodeStepUs ?? ttlUs,
    clientStepUs: clocks.clientStepUs ?? ttlUs,
    suspendUs: pauses.suspendUs,
    vmUs: pauses.vmUs,
    loss: { kind: 'none' },
    lateUs: network.mostUs,
  };
}

/** The same for what a holder does with its lock: messages take as long as they do at most, and a minority may be silent. */
export function workStressOf(system: System): Stress {
  const { client, network, nodes } = system;
  return { ...stressOf(system), latencyUs: network.mostUs, silent: silenceOf(client.policy, nodes.length).nodes };
}

/** From the last look at the lock to when a write has arrived, at most. A sleep counts where the client's clock counts it. */
export function wayOf({ pauses, network, client }: System): Way {
  const sleepUs = client.policy.habits.clock === 'monotonic' ? 0 : pauses.suspendUs;
  return { processUs: pauses.processUs, sleepUs, writeUs: network.writeUs };
}

/** Why a node may come to lack votes that it gave. */
export type LossReason =
  | 'evicts'
  | 'fails over'
  | 'restarts without a disk'
  | 'restarts with a dump'
  | 'restarts with fsync every second'
  | 'restarts on a new disk';

/** How a node loses votes, if it does; `delayUs: 0` for one that loses them while it runs. */
export interface NodeLoss {
  readonly reason: LossReason;
  readonly delayUs: number;
}

/** What a node may lose its votes by; nothing where it keeps them. */
export function lossesOf(node: SystemNode): NodeLoss[] {
  const losses: NodeLoss[] = [];
  if (node.evicts) losses.push({ reason: 'evicts', delayUs: 0 });
  if (node.failoverLagUs !== null) losses.push({ reason: 'fails over', delayUs: 0 });
  const reason = restartLoss(node);
  if (reason !== null && node.restartUs !== null) losses.push({ reason, delayUs: node.restartUs });
  return losses;
}

/** What a restarted node lacks. */
export function restartLoss({ persistence, diskKept }: SystemNode): LossReason | null {
  if (persistence === 'none') return 'restarts without a disk';
  if (!diskKept) return 'restarts on a new disk';
  if (persistence === 'rdb') return 'restarts with a dump';
  return persistence === 'everysec' ? 'restarts with fsync every second' : null;
}

/** What such a node's disk lacks a vote by. An fsync that runs as only the process dies loses as much as no disk at all. */
export function lossyDiskOf({ persistence, diskKept, powerLoss }: SystemNode): LossyDisk {
  if (!diskKept || persistence === 'none') return 'none';
  if (persistence === 'rdb') return 'dump';
  return powerLoss ? 'everysec' : 'none';
}

/** What counts the restart delay of a node: a timer of its supervisor, or one that looks at the time of day. */
export function restartClockOf({ supervisor }: SystemNode): RestartClock {
  return supervisor === 'other' || supervisor === 'managed' ? 'time-of-day' : 'timer';
}

/** The stress in which all nodes lose their votes that may, the soonest way; `null` where none does. */
export function lossStressOf(system: System): Stress | null {
  const losing = system.nodes.flatMap((node) => {
    const soonest = lossesOf(node).sort((a, b) => a.delayUs - b.delayUs)[0];
    return soonest === undefined ? [] : [{ node, ...soonest }];
  });
  const [first] = losing.sort((a, b) => a.delayUs - b.delayUs);
  if (first === undefined) return null;
  const stress = stressOf(system);
  const loss: Loss =
    first.reason === 'evicts' || first.reason === 'fails over'
      ? { kind: 'forgets' }
      : { kind: 'restarts', delayUs: first.delayUs, by: restartClockOf(first.node), disk: lossyDiskOf(first.node) };
  return { ...stress, struck: Math.min(losing.length, stress.struck), loss };
}
