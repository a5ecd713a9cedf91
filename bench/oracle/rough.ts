import type { Fault, LockPlan, WritePlan } from '../../scenarios/index.js';
import {
  type Adversary,
  type DecisionPoint,
  type Direction,
  type FateSlot,
  type Message,
  nodeName,
  type RandomStream,
  type SimLock,
  type WorldView,
} from '../../sim/index.js';

const PERCENT = 10_000;
const RESOURCES: readonly [readonly string[], ...(readonly string[])[]] = [['a'], ['a'], ['a', 'b'], ['b']];

/**
 * Another adversary, made worse: several resources, several locks of one client at a time, writes, and faults far outside of what the lock assumes, at equal
 * instants more often than not. What checkers of histories disagree about is in such runs, if anywhere.
 */
export class StressAdversary implements Adversary {
  private readonly inner: Adversary;
  private readonly draw: RandomStream;
  private readonly own: Fault[] = [];
  /** By client: what it asks for besides, while it still asks for or holds what it was told to. */
  private readonly besides: (LockPlan | null)[] = [];

  constructor(inner: Adversary, draw: RandomStream) {
    this.inner = inner;
    this.draw = draw;
  }

  nextLock(client: number, view: WorldView): LockPlan | null {
    const { draw } = this;
    const second = this.besides[client] ?? null;
    this.besides[client] = null;
    if (second !== null) return second;
    const inner = this.inner.nextLock(client, view);
    if (inner === null) return null;
    const plan = this.worse(inner);
    const ttl = plan.ttlMs * 1000;
    if (draw.chance(20 * PERCENT)) {
      this.besides[client] = this.worse({
        ...inner,
        atUs: inner.atUs + draw.pick([0, 0, draw.below(5_000), draw.below(ttl)]),
      });
    }
    return plan;
  }

  private worse(plan: LockPlan): LockPlan {
    const { draw } = this;
    const writes = Array.from({ length: draw.below(3) }, () => this.write(plan.ttlMs * 1000));
    return { ...plan, resources: draw.pick(RESOURCES), writes };
  }

  private write(ttl: number): WritePlan {
    const { draw } = this;
    const checkAfterUs = draw.below(ttl);
    return {
      checkAfterUs,
      guardUs: draw.chance(50 * PERCENT) ? null : draw.below(ttl),
      sendAfterUs: checkAfterUs + draw.pick([0, 0, draw.below(20_000)]),
      delayUs: draw.pick([0, 1_000, draw.below(ttl)]),
    };
  }

  jitterPpm(client: number, lock: number, attempt: number): number {
    return this.inner.jitterPpm(client, lock, attempt);
  }

  fate(message: Message, direction: Direction, send: number, fate: FateSlot, view: WorldView): void {
    this.inner.fate(message, direction, send, fate, view);
  }

  nextFault(moment: DecisionPoint, lock: SimLock | null, view: WorldView): Fault | null {
    const fault = this.inner.nextFault(moment, lock, view);
    if (fault !== null) return fault;
    if (this.own.length === 0 && lock !== null && moment === 'claim' && this.draw.chance(30 * PERCENT)) {
      this.strike(lock, view);
      return this.own.shift() ?? null;
    }
    return this.own.shift() ?? null;
  }

  /** One to three faults, some of them in the same instant. */
  private strike(lock: SimLock, view: WorldView): void {
    const { draw } = this;
    const ttl = lock.plan.ttlMs * 1000;
    let atUs = view.now + draw.pick([0, draw.below(5_000), draw.below(ttl)]);
    for (let i = draw.between(1, 3); i > 0; i--) {
      this.own.push(this.fault(atUs, lock, view, ttl));
      if (draw.chance(50 * PERCENT)) atUs += draw.below(ttl / 4);
    }
  }

  private fault(atUs: number, lock: SimLock, view: WorldView, ttl: number): Fault {
    const { draw } = this;
    const when = { atUs, edge: 'after' as const };
    const node = nodeName(draw.below(view.nodes.length));
    const process = draw.chance(70 * PERCENT) ? lock.client.name : node;
    switch (draw.below(9)) {
      case 0:
        return { kind: 'pause', process, ...when, forUs: draw.between(1, 2 * ttl) };
      case 1:
        return { kind: 'clock-step', process, ...when, byUs: draw.between(-ttl, ttl) };
      case 2:
        return { kind: 'clock-drift', process, ...when, ratePpm: draw.between(-300_000, 300_000) };
      case 3:
        return { kind: 'data-loss', node, ...when, ...(draw.chance(50 * PERCENT) ? { resource: 'a' } : {}) };
      case 4:
        return { kind: 'crash', node, ...when, restartAfterUs: draw.pick([0, null, draw.below(ttl)]) };
      case 5:
        return { kind: 'client-crash', client: lock.client.name, ...when };
      case 6:
        return {
          kind: 'client-crash',
          client: lock.client.name,
          ...when,
          restartAfterUs: draw.pick([0, draw.below(ttl)]),
        };
      case 7: {
        const stops = draw.chance(50 * PERCENT) ? ({ stops: 'all' } as const) : {};
        return { kind: 'suspend', process, ...when, forUs: draw.between(1, 2 * ttl), ...stops };
      }
      default:
        return { kind: 'failover', node, ...when };
    }
  }
}
