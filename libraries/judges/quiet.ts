import type { Fault, ProcessName } from '../../scenarios/index.js';
import { nodeIndex, type WatchedWorld } from '../../sim/index.js';

const FOR_EVER = Number.POSITIVE_INFINITY;

/** Since when nothing has got in anybody's way, and which nodes are out of order meanwhile. All times in µs of true time. */
export class Quiet {
  /** Clocks were set, or changed their rate. */
  clocksChanged = false;
  private lastUs = -1;
  /** Ends of what lasts. */
  private readonly ends: number[] = [];
  private readonly nodes: WatchedWorld['nodes'];
  /** By node: until when it refuses or is cut off from somebody. */
  private readonly outUntil: number[];

  constructor(nodes: WatchedWorld['nodes']) {
    this.nodes = nodes;
    this.outUntil = nodes.map(() => 0);
  }

  /** Something gets in the way now, and goes on until then. */
  disturb(now: number, until: number): void {
    this.lastUs = Math.max(this.lastUs, now);
    if (until > now && until < FOR_EVER) this.ends.push(until);
  }

  strikes(fault: Fault, now: number): void {
    switch (fault.kind) {
      case 'pause':
      case 'suspend':
        this.clocksChanged ||= fault.kind === 'suspend';
        this.disturb(now, now + fault.forUs);
        break;
      case 'error-replies':
        this.out([fault.node], now, now + fault.forUs);
        break;
      case 'partition':
        this.out([...fault.from, ...fault.to], now, now + fault.forUs);
        break;
      case 'clock-step':
      case 'clock-drift':
        this.clocksChanged = true;
        break;
    }
    this.disturb(now, now);
  }

  private out(names: readonly ProcessName[], now: number, until: number): void {
    for (const name of names) {
      const node = nodeIndex(name);
      if (node >= 0) this.outUntil[node] = Math.max(this.outUntil[node] ?? 0, until);
    }
    this.disturb(now, until);
  }

  /** Whether nothing has begun or ended to be in the way since then, or at that instant. */
  holdsSince(us: number, now: number): boolean {
    return this.lastUs < us && this.ends.every((end) => end < us || end > now);
  }

  /** Whether a node is in order now. */
  isInOrder(node: number, now: number): boolean {
    const { down = true, pausedUntil = now } = this.nodes[node] ?? {};
    return !down && pausedUntil <= now && (this.outUntil[node] ?? 0) <= now;
  }

  /** How many nodes are in order now. */
  nodesInOrder(now: number): number {
    return this.nodes.filter(({ index }) => this.isInOrder(index, now)).length;
  }
}
