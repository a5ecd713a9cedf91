import type { Fault } from '../scenarios/index.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, type Ways } from './rehearsal.js';

/** A lock, and what is needed to run it. */
export interface Runnable {
  readonly bench: Bench;
  readonly hosts: Hosts;
  readonly how: Understood;
}

/** The same with the TTL with which it is used, ms. */
export interface Timed extends Runnable {
  readonly ttlMs: number;
}

/** The same with what is known of its runs. */
export interface Subject extends Timed {
  readonly alone: Attempt;
}

/** Runs these uses by a process each, with these faults. */
export async function plays(
  { bench, hosts, how, ttlMs }: Timed,
  clients: Parameters<typeof calm>[1],
  faults: readonly Fault[] = [],
  ways: Ways = {},
): Promise<readonly Attempt[]> {
  const lastMs = Math.max(...clients.flat().map(({ atUs, holdUs }) => (atUs + (holdUs ?? 0)) / 1000));
  const schedule = calm(how.nodes, clients, (lastMs + 4 * ttlMs + REST_MS) * 1000);
  return rehearse(bench, hosts, how, { ...schedule, faults: [...faults] }, ways);
}

/** The use of a process that got the lock. */
export function useOf(attempts: readonly Attempt[], client: string): Attempt | undefined {
  return attempts.find((it) => it.client === client && it.held !== null);
}

/** Longest time from a planned call until its first replies without faults, ms. */
export const REPLY_MS = 24;
