import { setTimeout as sleep } from 'node:timers/promises';
import type { ProvisionedNode } from '../provisioner/index.js';
import type { NodeProxy } from '../proxy/index.js';
import type { ClientPool } from './client-pool.js';
import { clockPauseMs } from './plan.js';
import type { ChaosFault, PerformedFault, PlannedFault } from './types.js';

/** A node, with the ways to it of each side of the clients. */
export interface TargetNode {
  readonly node: ProvisionedNode;
  readonly ways: readonly NodeProxy[];
}

/** What a storm of faults strikes, and when. */
interface StormOptions {
  /** In the order of time. */
  readonly plan: readonly PlannedFault[];
  readonly places: readonly TargetNode[];
  readonly pool: ClientPool;
  readonly ttlMs: number;
  /** Whether the clocks of nodes can be skewed; else those faults of the plan are left out. */
  readonly clocks: boolean;
  /** Ends the storm; a fault that cannot be carried out does so, too. */
  readonly ending: AbortController;
}

/** The clock of a node: how far it is ahead by what was done to it, at which rate it runs, and since when. */
interface Skew {
  aheadMs: number;
  rate: number;
  sinceMs: number;
}

/**
 * Strikes nodes, ways and clients as a plan says, and notes when each fault really began and ended. Faults of one node,
 * of one clock, or of the clients follow each other: one that takes longer than planned makes the next one late.
 */
export class RandomFaultInjector {
  readonly #options: StormOptions;
  readonly #begunAt: number = performance.now();
  readonly #performed: PerformedFault[] = [];

  constructor(options: StormOptions) {
    this.#options = options;
  }

  /** What was done so far, in the order of its end. */
  get performed(): readonly PerformedFault[] {
    return this.#performed;
  }

  get faults(): Readonly<Partial<Record<ChaosFault, number>>> {
    const counts: Partial<Record<ChaosFault, number>> = {};
    for (const { fault } of this.#performed) {
      const { kind, nodes } = this.#options.plan[fault] ?? {};
      // A majority that forgets is as many restarts.
      if (kind !== undefined)
        counts[kind] = (counts[kind] ?? 0) + (kind === 'restart at once' ? (nodes?.length ?? 0) : 1);
    }
    return counts;
  }

  get count(): number {
    return Object.values(this.faults).reduce((sum, count) => sum + count, 0);
  }

  /** Rages until the plan or the signal ends it, and leaves nodes, ways and clients well. */
  async rage(): Promise<void> {
    const lanes = new Map<string, number[]>();
    for (const [index, fault] of this.#options.plan.entries()) {
      const name = laneOf(fault);
      lanes.set(name, [...(lanes.get(name) ?? []), index]);
    }
    const following = [...lanes.values()].map((lane) => this.#follow(lane));
    try {
      await Promise.all(following);
    } catch (error) {
      this.#options.ending.abort();
      // No lane may start a server again that nobody ends.
      await Promise.allSettled(following);
      throw error;
    }
  }

  async #follow(lane: readonly number[]): Promise<void> {
    const skew: Skew = { aheadMs: 0, rate: 1, sinceMs: this.#now() };
    for (const index of lane) {
      const fault = this.#options.plan[index];
      if (fault === undefined) return;
      if (!(await this.#wait(fault.atMs - this.#now()))) return;
      const begunMs = this.#now();
      if (!(await this.#strike(fault, skew))) continue;
      this.#performed.push({ fault: index, begunMs: Math.round(begunMs), endedMs: Math.round(this.#now()) });
    }
  }

  /** Returns whether it could be done. */
  async #strike(fault: PlannedFault, skew: Skew): Promise<boolean> {
    const { kind, forMs, nodes, client = 0 } = fault;
    const { places, pool } = this.#options;
    const hit = nodes.flatMap((node) => places[node] ?? []);
    switch (kind) {
      case 'restart at once':
        await Promise.all(hit.map(({ node }) => node.restart({ keepData: false })));
        return true;
      case 'client kill':
        pool.replace(client);
        return true;
      case 'client stop':
        pool.pause(client);
        await this.#wait(forMs);
        pool.resume(client);
        return true;
      case 'clock rate':
      case 'clock step':
        return this.#skew(fault, hit, skew);
      default:
        for (const place of hit) await this.#trouble(fault, place);
        return true;
    }
  }

  async #trouble(fault: PlannedFault, { node, ways }: TargetNode): Promise<void> {
    const { kind, forMs, sides, requestMs = 0, replyMs = 0 } = fault;
    const some = sides === undefined ? ways : sides.flatMap((side) => ways[side] ?? []);
    switch (kind) {
      case 'kill':
        await node.kill();
        // The delay is kept even if the fault plan ends: a holder still counts on it.
        await sleep(forMs);
        await node.restart({ keepData: false });
        break;
      case 'stop':
        await node.pause();
        await this.#wait(forMs);
        await node.resume();
        break;
      case 'delay':
        for (const way of some) way.delay(requestMs, replyMs);
        await this.#wait(forMs);
        for (const way of some) way.delay(0);
        break;
      case 'cut':
        for (const way of some) way.cut();
        break;
      case 'half-open':
        for (const way of some) way.halfOpen();
        // Who does not hear is found out by nobody but the one who asks.
        await this.#wait(forMs);
        for (const way of some) way.cut();
        break;
      default:
        for (const way of some)
          way.drop(kind === 'lose requests' ? 'requests' : kind === 'lose replies' ? 'replies' : 'both');
        await this.#wait(forMs);
        for (const way of some) way.drop('nothing');
    }
  }

  async #skew({ rate, stepMs = 0 }: PlannedFault, hit: readonly TargetNode[], skew: Skew): Promise<boolean> {
    const { clocks, ttlMs } = this.#options;
    if (!clocks) return false;
    // However late the last change was, as much time passes before the next one.
    if (!(await this.#wait(skew.sinceMs + clockPauseMs(ttlMs) - this.#now()))) return false;
    const now = this.#now();
    skew.aheadMs += (skew.rate - 1) * (now - skew.sinceMs) + stepMs;
    skew.rate = rate ?? skew.rate;
    skew.sinceMs = now;
    for (const { node } of hit) await node.setClock({ aheadMs: skew.aheadMs, rate: skew.rate });
    return true;
  }

  #now(): number {
    return performance.now() - this.#begunAt;
  }

  /** Waits, and says whether the storm goes on. */
  async #wait(ms: number): Promise<boolean> {
    const { signal } = this.#options.ending;
    try {
      await sleep(Math.max(0, ms), undefined, { signal });
      return true;
    } catch {
      return false;
    }
  }
}

/** What its faults follow each other in. */
function laneOf({ kind, nodes }: PlannedFault): string {
  if (kind === 'restart at once') return 'all';
  if (kind === 'client kill' || kind === 'client stop') return 'clients';
  return `${kind === 'clock rate' || kind === 'clock step' ? 'clock' : 'node'} ${nodes.join()}`;
}
