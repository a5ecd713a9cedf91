import { lockPolicyOf, type Policy, quorumOf } from '../deviations/index.js';
import type { WorldView } from '../sim/index.js';
import type { FaultModel } from './fault-model.js';

/** Whether clients read and raise counters of nodes for their fencing tokens. */
export function countsForTokens(policy: Policy): boolean {
  return lockPolicyOf(policy).settings.fencing;
}

/** Which nodes can be made to lose their fencing counter, so that a quorum knows its own at all times. */
export class SpareCounters {
  private readonly nodes: number;
  /** Most nodes that may be without at a time. */
  private readonly most: number;
  /** By node: when the last fault strikes that takes its counter. */
  private readonly strikes: number[] = [];

  constructor({ counters, policy, nodes }: FaultModel) {
    this.nodes = nodes;
    this.most = counters && countsForTokens(policy) ? nodes - quorumOf(policy, nodes) : nodes;
  }

  /** Whether a node can be spared from `atUs` on; if so, it counts as one without a counter until it has one again. */
  take(node: number, atUs: number, view: WorldView | null): boolean {
    if (this.most === this.nodes) return true;
    let without = 0;
    for (let other = 0; other < this.nodes; other++) if (other === node || this.lacks(other, view)) without++;
    if (without > this.most) return false;
    this.strikes[node] = Math.max(this.strikes[node] ?? 0, atUs);
    return true;
  }

  /** Whether a node has no counter now, or is about to lose it. */
  private lacks(node: number, view: WorldView | null): boolean {
    const strike = this.strikes[node] ?? -1;
    if (view === null || strike >= view.now) return strike >= 0;
    const it = view.nodes[node];
    return it === undefined || it.down || !it.counter.isKnown;
  }
}
