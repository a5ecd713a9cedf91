import { REFERENCE } from '../core/index.js';
import type { Fault, LockPlan } from '../scenarios/index.js';
import type { Adversary, Direction, FateSlot, LockRun, Message, Moment, Setup, Stream, Streams } from '../sim/index.js';

/** Five nodes, three clients, a TTL of one second, and a network that loses, copies, delays and reorders. */
export const FORMER_SETUP: Setup = {
  cluster: {
    nodes: 5,
    delayUs: 500,
    distances: [],
    link: 'reordering',
    expiry: 'after',
    resolutionUs: 1000,
    persistence: 'none',
    replicaLagUs: 2_000,
    clocks: [
      { process: 'n0', offsetUs: 17, ratePpm: 200 },
      { process: 'n3', offsetUs: 1_000_003, ratePpm: -300 },
      { process: 'c2', offsetUs: 5_000, ratePpm: 100 },
    ],
  },
  policy: { ...REFERENCE, tries: 3, retryDelayUs: 60_000, retryJitterUs: 30_000 },
  clients: ['c1', 'c2', 'c3'],
  resource: 'none',
  untilUs: 5_000_000,
};

/** Locks of each client in a history. */
const LOCKS = 2;

/**
 * What the benchmark played before it had every kind of fault: short holds under contention, an extension now and then, writes,
 * and one fault of eight kinds in each history, of any size: outside of what the lock assumes.
 */
export class FormerWorkload implements Adversary {
  private readonly draw: Stream;
  private readonly left = [LOCKS, LOCKS, LOCKS];
  private readonly faults: Fault[];

  constructor(streams: Streams, run: number) {
    this.draw = streams.stream(run, 0);
    this.faults = this.drawFaults();
  }

  private drawFaults(): Fault[] {
    const { draw } = this;
    const node = (): string => `n${draw.below(5)}`;
    const client = (): string => `c${draw.between(1, 3)}`;
    const at = (): number => draw.below(400_000);
    return [
      { kind: 'crash', node: node(), atUs: at(), restartAfterUs: draw.below(1_200_000) },
      { kind: 'failover', node: node(), atUs: at() },
      { kind: 'client-crash', client: client(), atUs: 300_000 + at() },
      { kind: 'suspend', process: client(), atUs: at(), forUs: draw.below(30_000) },
      { kind: 'pause', process: draw.chance(500_000) ? node() : client(), atUs: at(), forUs: draw.below(30_000) },
      { kind: 'clock-step', process: node(), atUs: at(), byUs: draw.between(-20_000, 20_000) },
      { kind: 'clock-rate', process: client(), atUs: at(), ratePpm: draw.between(-500, 500) },
      {
        kind: 'partition',
        atUs: at(),
        from: [client()],
        to: [node(), node()],
        oneWay: false,
        forUs: draw.below(50_000),
      },
    ];
  }

  nextLock(
    client: number,
    view: { readonly now: number; readonly clients: readonly { readonly locks: readonly LockRun[] }[] },
  ): LockPlan | null {
    const left = this.left[client] ?? 0;
    const mine = view.clients[client]?.locks ?? [];
    const phase = mine[mine.length - 1]?.state.phase;
    if (left === 0 || (phase !== undefined && phase !== 'released' && phase !== 'failed' && phase !== 'lost'))
      return null;
    this.left[client] = left - 1;
    const { draw } = this;
    return {
      atUs: view.now + 1 + client * 15_000 + draw.below(10_000),
      resources: ['a'],
      ttlMs: 1_000,
      holdUs: draw.below(15_000),
      extensions: draw.chance(200_000) ? [{ afterUs: draw.below(5_000), ttlMs: 1_000 }] : [],
      writes: draw.chance(300_000) ? [{ checkAfterUs: 100, guardUs: 0, sendAfterUs: 200, delayUs: 300 }] : [],
      jitterPpm: [],
    };
  }

  jitterPpm(): number {
    return this.draw.below(1_000_000);
  }

  fate(_message: Message, _direction: Direction, _send: number, fate: FateSlot): void {
    const { draw } = this;
    // One draw for both: the delay, and every now and then something worse.
    const luck = draw.below(1_300_000);
    fate.delayUs = 200 + ((luck / 1_000) | 0);
    const trouble = luck % 1_000;
    if (trouble < 15) fate.lost = true;
    else if (trouble < 25) fate.duplicateDelayUs = 3 * fate.delayUs;
    else if (trouble < 30) fate.delayUs *= 50;
  }

  nextFault(moment: Moment): Fault | null {
    return moment === 'start' ? (this.faults.shift() ?? null) : null;
  }
}
