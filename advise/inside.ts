import { type Policy, policyWith } from '../deviations/index.js';
import { type CheckResult, check } from '../search/check.js';
import { type FaultModel, NO_STRETCH, WITHIN_ASSUMPTIONS } from '../search/fault-model.js';
import { lossStressOf } from './stress-of.js';
import type { System } from './system.js';

/** A search for what the adversaries of `hazards.ts` do not try. */
interface InsideOptions {
  readonly runs: number;
  readonly seed?: string;
  readonly shrink?: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (runs: number) => void;
}

const MILLION = 1_000_000;

/**
 * Draws histories of a system in which everything happens that it expects, and whatever a lock has to withstand at any time
 * (losses, delays, copies, partitions, pauses, dead clients), and judges mutual exclusion. What it finds where the adversaries
 * find nothing is the client's own doing.
 */
export function searchInside(system: System, options: InsideOptions): Promise<CheckResult> {
  const { runs, seed = '1', shrink = true, signal, onProgress } = options;
  return check({
    faultModel: faultModelOf(system),
    seed,
    runs,
    shrink,
    properties: ['mutual-exclusion'],
    ...(signal === undefined ? {} : { signal }),
    ...(onProgress === undefined ? {} : { onProgress: (it) => onProgress(it.runs) }),
  });
}

/** What a search may do to the lock of a system. */
export function faultModelOf(system: System): FaultModel {
  const { client, nodes, clocks, pauses } = system;
  const policy = searched(system);
  const restart = restartOf(system);
  const clientStepUs = policy.habits.clock === 'wall' ? (clocks.clientStepUs ?? 1000 * client.ttlMs) : 0;
  const stepUs = Math.max(clientStepUs, clocks.nodeStepUs ?? 1000 * client.ttlMs);
  const losesByItself = nodes.some(({ evicts, failoverLagUs }) => evicts || failoverLagUs !== null);
  return {
    ...WITHIN_ASSUMPTIONS,
    nodes: nodes.length,
    clients: Math.max(2, Math.min(client.clients, MOST_CLIENTS)),
    ttlsMs: [client.ttlMs],
    policy,
    persistence: restart.persistence,
    stretch: {
      ...NO_STRETCH,
      'clock-drift': clocks.driftPpm > 0 ? 1 : 0,
      'clock-step': stepUs > 0 ? 1 : 0,
      'restart-delay': restart.down > 0 ? 1 : 0,
    },
    ratePpm: clocks.driftPpm > 0 ? clocks.driftPpm : null,
    stepUs: stepUs > 0 ? stepUs : null,
    restartDelayUs: restart.delayUs,
    crashes: restart.down,
    powerLosses: restart.down,
    mostDown: restart.down,
    flushes: losesByItself ? system.atOnce : 0,
    // Of any size: a client whose clock they move is judged by the adversaries, which know how far.
    wallSteps: 0,
    suspends: policy.habits.clock === 'monotonic' || pauses.suspendUs === 0 ? 0 : 1,
    ownTiming: false,
    durable: restart.persistence === 'always',
    disks: false,
    ...(system.network.reordering ? {} : { link: 'fifo' }),
  };
}

/** More clients than these find nothing that these do not. */
const MOST_CLIENTS = 3;

/** The client of a system: it extends its locks only if the work does. */
function searched({ client, work }: System): Policy {
  if (work.extends) return client.policy;
  return policyWith({ settings: { maxExtensions: 0, autoExtendAtUs: null, autoExtendAtPpm: null } }, client.policy);
}

interface Restarts {
  readonly persistence: FaultModel['persistence'];
  readonly down: number;
  readonly delayUs: number | null;
}

/** Nodes go down one at a time and all at once, and are back as soon as they may be. */
function restartOf(system: System): Restarts {
  const { nodes, clocks, atOnce } = system;
  const stress = lossStressOf(system);
  const down = Math.min(nodes.length, Math.max(1, atOnce));
  if (stress === null) {
    const stays = nodes.every(({ restartUs }) => restartUs === null);
    return { persistence: 'always', down: stays ? 0 : down, delayUs: 0 };
  }
  if (stress.loss.kind !== 'restarts') return { persistence: 'none', down: 0, delayUs: null };
  const { delayUs, by } = stress.loss;
  const fast = by === 'true-time' ? 0 : clocks.driftPpm;
  const stepUs = by === 'time-of-day' ? (clocks.nodeStepUs ?? 0) : 0;
  const trueUs = Math.max(0, Math.ceil((delayUs * MILLION) / (MILLION + fast)) - stepUs);
  const persistence = nodes.every((it) => it.persistence === 'everysec' && it.diskKept) ? 'everysec' : 'none';
  return { persistence, down, delayUs: trueUs };
}
