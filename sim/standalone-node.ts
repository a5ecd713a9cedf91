import type { Answer, Command } from '../core/index.js';
import { lockPolicyOf, type Policy } from '../deviations/index.js';
import type { Cluster } from '../scenarios/index.js';
import type { FencingCounter } from './counter.js';
import { SimNode } from './node.js';
import { Observer } from './observer.js';
import { EventKind, QueueEvent } from './queue.js';
import { RunContext } from './run-context.js';
import { type TrueTime, trueTime } from './time.js';

/** What a key holds: whose it is, and for how many ms still. */
export interface KeyState {
  readonly token: string;
  readonly ttlMs: number;
}

/** One simulated node without a world: to compare it with a server, and to explore. Nobody but its user moves its time. */
export class StandaloneNode {
  private readonly context: RunContext = new RunContext([], new Observer(), false);
  private readonly node: SimNode;
  /** From the time that a TTL ends until the key is gone, ms. */
  private readonly graceMs: number;

  /** @param expiry - `at` for a node that lets keys go a millisecond too early. */
  constructor(expiry: 'after' | 'at' = 'after') {
    // A look for expired keys never comes: the node has to notice by itself, like a server before its clean-up ran.
    this.graceMs = expiry === 'after' ? 1 : 0;
    this.node = new SimNode(0, lonely(expiry), this.context, neverLook, 0, 0);
  }

  /** Carries out a command when the node's clock shows `nowMs`. */
  execute(policy: Policy, command: Command, keys: readonly string[], nowMs: number): Answer {
    return this.node.execute(lockPolicyOf(policy), command, this.indices(keys), this.at(nowMs));
  }

  /** What is left of these keys when the node's clock shows `nowMs`. */
  state(keys: readonly string[], nowMs: number): (KeyState | null)[] {
    const at = this.at(nowMs);
    return this.indices(keys).map((key) => {
      const goneAt = this.node.goneAt(key);
      if (!this.node.holds(key) || at >= goneAt) return null;
      return { token: String(this.node.keys.tokenAt(key)), ttlMs: goneAt / 1000 - this.graceMs - nowMs };
    });
  }

  /** Its fencing counter, which {@link execute} uses. */
  get counter(): FencingCounter {
    return this.node.counter;
  }

  private indices(keys: readonly string[]): number[] {
    return keys.map((key) => this.context.keyOf(key));
  }

  private at(nowMs: number): TrueTime {
    this.context.now = trueTime(nowMs * 1000);
    return this.context.now;
  }
}

function neverLook(): QueueEvent {
  const event = new QueueEvent();
  event.kind = EventKind.expiry;
  return event;
}

function lonely(expiry: Cluster['expiry']): Cluster {
  return {
    nodes: 1,
    delayUs: 0,
    distances: [],
    link: 'fifo',
    expiry,
    resolutionUs: 1000,
    persistence: 'none',
    replicaLagUs: null,
    clocks: [],
  };
}
