import { type Policy, policyWithTiming } from '../deviations/index.js';
import type { ClientPlan, ClockPlan, ProcessName, ResourceGuard } from '../scenarios/index.js';
import type { ClientProcess } from './client-process.js';
import type { ClusterSetup } from './cluster-setup.js';
import type { SimNode } from './node.js';
import type { SimLock } from './sim-lock.js';
import type { TrueTime } from './time.js';

/** What is fixed before a run begins. */
export interface Setup {
  readonly cluster: ClusterSetup;
  readonly policy: Policy;
  readonly clients: readonly ProcessName[];
  /** By client: what it knows of the cluster, if not what all know. */
  readonly views?: readonly ClientView[] | undefined;
  readonly resource: ResourceGuard;
  readonly untilUs: number;
}

/**
 * The nodes a client knows of, all of them if nothing is said; what it puts before the names of resources; and how it
 * tells the time, where that is not what the policy says.
 */
export type ClientView = Pick<ClientPlan, 'nodes' | 'keyPrefix' | 'timing'>;

/** The policy that a client follows, by its index. */
export function policyFor({ policy, views }: Setup, client: number): Policy {
  const timing = views?.[client]?.timing;
  return policyWithTiming(policy, timing);
}

/** Clocks of a set-up by process; a process without a plan has a perfect clock. */
export function clockOf(setup: Setup, process: ProcessName): Omit<ClockPlan, 'process'> {
  for (const plan of setup.cluster.clocks) if (plan.process === process) return plan;
  return PERFECT;
}

const PERFECT = { offsetUs: 0, ratePpm: 0 };

/** The world as adversaries see it: everything, but to look at only. */
export interface WorldView {
  readonly now: TrueTime;
  readonly setup: Setup;
  readonly nodes: readonly SimNode[];
  readonly clients: readonly ClientProcess[];
  /** The lock that uses a token, if any. */
  ownerOf(token: number): SimLock | null;
}
