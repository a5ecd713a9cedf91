import { has, NO_NODES, type NodeSet, oneNode, union, without } from '../../../core/index.js';
import type { ClockPlan, Fault, ProcessName } from '../../../scenarios/index.js';
import { nodeIndex, type SimLock, type TrueTime, type WatchedWorld } from '../../../sim/index.js';
import { empty, insertAt } from '../remove.js';

const MILLION = 1_000_000;

/**
 * Since when nothing has been disturbed, and what is out of order all the while. A fault that lasts is two disturbances,
 * its beginning and its end; in between it only takes away the nodes that it is about.
 */
export class StablePeriod {
  /** True time, µs. */
  since = 0;
  /** What clocks of nodes were set or held back in all, µs. */
  setBackUs = 0;
  /** Error of the slowest clock so far, at most 0. */
  private slowestPpm = 0;
  /** Rate of that clock, as a divisor of durations. */
  slowness = 1;
  private down: NodeSet = NO_NODES;
  /** Nodes that have lost their fencing counter: no vote until a lock has given them one. */
  private counterless: NodeSet = NO_NODES;
  private nodes: number;
  /** Ends of disturbances that are still ahead, the next one first. */
  private readonly ends: number[] = [];
  private readonly refusingUntil: number[] = [];
  /** By client × nodes + node. */
  private readonly cutUntil: number[] = [];

  constructor(nodes: number, clocks: readonly ClockPlan[]) {
    this.nodes = nodes;
    for (const { ratePpm } of clocks) this.runs(ratePpm);
  }

  /** For another run. */
  reset(nodes: number, clocks: readonly ClockPlan[]): void {
    this.since = 0;
    this.setBackUs = 0;
    this.slowestPpm = 0;
    this.slowness = 1;
    this.down = NO_NODES;
    this.counterless = NO_NODES;
    this.nodes = nodes;
    empty(this.ends);
    for (let i = 0; i < this.refusingUntil.length; i++) this.refusingUntil[i] = 0;
    for (let i = 0; i < this.cutUntil.length; i++) this.cutUntil[i] = 0;
    for (const { ratePpm } of clocks) this.runs(ratePpm);
  }

  private runs(ppm: number): void {
    if (ppm >= this.slowestPpm) return;
    this.slowestPpm = ppm;
    this.slowness = 1 + ppm / MILLION;
  }

  /** Something gets in the way at `now`, and ends at `until`. */
  disturb(now: number, until: number): void {
    this.since = now;
    if (until <= now) return;
    let at = this.ends.length;
    while (at > 0 && (this.ends[at - 1] ?? 0) > until) at--;
    if (at === 0 || this.ends[at - 1] !== until) insertAt(this.ends, at, until);
  }

  /** The latest true time at which a process that counts `us` from `at` on its own clock is done, µs. */
  after(at: number, us: number): number {
    // On a slow clock, two roundings may add up.
    return this.slowestPpm === 0 ? at + us : at + Math.ceil(us / this.slowness) + 2;
  }

  get nextEnd(): number {
    return this.ends[0] ?? Number.POSITIVE_INFINITY;
  }

  /** The next disturbance ends. */
  end(): void {
    this.since = Math.max(this.since, this.ends.shift() ?? 0);
  }

  /** What has ended by now is over. */
  settle(now: number): void {
    while (this.nextEnd <= now) this.end();
  }

  nodeDown(node: number): void {
    this.down = union(this.down, oneNode(node));
  }

  nodeUp(node: number, now: number): void {
    this.down = without(this.down, oneNode(node));
    this.disturb(now, now);
  }

  /** The fencing counter of a node changed; -1 if it was lost. */
  counterSet(node: number, counter: number, now: number): void {
    const lost = counter < 0;
    if (has(this.counterless, node) === lost) return;
    this.counterless = lost ? union(this.counterless, oneNode(node)) : without(this.counterless, oneNode(node));
    this.disturb(now, now);
  }

  /** A fault strikes, on this node; -1 for none. */
  strikes(fault: Fault, now: TrueTime, world: WatchedWorld, node: number): void {
    let until: number = now;
    switch (fault.kind) {
      case 'pause':
        until += fault.forUs;
        break;
      case 'error-replies':
        until += fault.forUs;
        if (node >= 0) this.refusingUntil[node] = until;
        break;
      case 'partition':
        until += fault.forUs;
        this.cut(fault.from, fault.to, until, world);
        break;
      case 'clock-drift':
        this.runs(fault.ratePpm);
        break;
      case 'clock-step':
        if (fault.byUs < 0 && node >= 0) this.setBackUs -= fault.byUs;
        break;
      case 'suspend':
        until += fault.forUs;
        // A node whose clock stops keeps its keys for longer.
        if (fault.stops === 'all' && node >= 0) this.setBackUs += fault.forUs;
        break;
      default:
    }
    this.disturb(now, until);
  }

  private cut(from: readonly ProcessName[], to: readonly ProcessName[], until: number, world: WatchedWorld): void {
    for (const { index, name } of world.clients) {
      const others = names(from, name) ? to : names(to, name) ? from : NOBODY;
      for (const other of others) {
        const node = nodeIndex(other);
        if (node < 0) continue;
        const link = index * this.nodes + node;
        this.cutUntil[link] = Math.max(this.cutUntil[link] ?? 0, until);
      }
    }
  }

  /** Nodes on a client's list that are up, answer, and can be reached by it at `at`. */
  usable({ client, list }: SimLock, world: WatchedWorld, at: number): NodeSet {
    let set = NO_NODES;
    for (const i of list.nodes) {
      const node = world.nodes[i];
      if (node === undefined) continue;
      const hung = node.pausedUntil > at || (this.refusingUntil[i] ?? 0) > at;
      const out = has(this.down, i) || has(this.counterless, i);
      if (!out && !hung && (this.cutUntil[client.index * this.nodes + i] ?? 0) <= at) set = union(set, oneNode(i));
    }
    return set;
  }
}

const NOBODY: readonly ProcessName[] = [];

/** Whether a process is on a list: `includes` compares names letter by letter. */
function names(list: readonly ProcessName[], process: ProcessName): boolean {
  for (const name of list) if (name === process) return true;
  return false;
}

/** Whether a fault does anything: who is down cannot go down again, freeze or forget. */
export function hasEffect(fault: Fault, world: WatchedWorld, node: number, client: number): boolean {
  switch (fault.kind) {
    case 'crash':
    case 'data-loss':
      return isUp(world.nodes, node);
    case 'failover':
      return fault.to === undefined || fault.to === fault.node || isUp(world.nodes, nodeIndex(fault.to));
    case 'client-crash':
      return isUp(world.clients, client);
    case 'pause':
      return node < 0 ? isUp(world.clients, client) : isUp(world.nodes, node);
    default:
      return true;
  }
}

function isUp(processes: readonly { readonly down: boolean }[], index: number): boolean {
  return index >= 0 && processes[index]?.down === false;
}
