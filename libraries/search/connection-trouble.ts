import type { Fault } from '../../scenarios/index.js';
import type {
  DecisionPoint,
  Direction,
  FateSlot,
  Message,
  RandomStream,
  SimLock,
  TrueTime,
  WorldView,
} from '../../sim/index.js';

/** What happens to the connections of clients that open their own. */
export interface ConnectionTroubleOptions {
  /** Share of requests after which their connection breaks by itself, ppm. */
  readonly resetPpm: number;
  /** Share of acquisitions during which connections of their client break together, while it is busy, ppm. */
  readonly burstPpm: number;
  /** Share of crashes of nodes that are silent, as the machine is off; others refuse, as only the process is dead, ppm. */
  readonly silentPpm: number;
}

const HALF_PPM = 500_000;
const MOST_PPM = 900_000;

/** A client that is busy for a while, at the end of which it reads that its connections are broken. */
interface Burst {
  readonly breaksAt: number;
  readonly pause: Fault;
}

/**
 * Draws what happens to connections: single ones break, those of one client break together, and machines go off. What
 * comes to a client while it is busy is read at one time, before it goes on: that is where clients mistake things.
 */
export class ConnectionTrouble {
  private readonly options: ConnectionTroubleOptions;
  private readonly draw: RandomStream;
  /** By client: when its connections break next, µs. */
  private readonly breaksAt: number[] = [];

  constructor(options: ConnectionTroubleOptions, draw: RandomStream) {
    this.options = options;
    this.draw = draw;
  }

  /** What strikes besides, if anything. */
  nextFault(moment: DecisionPoint, lock: SimLock | null, { now }: WorldView): Fault | null {
    const isAhead = lock !== null && (this.breaksAt[lock.client.index] ?? 0) > now;
    if (moment !== 'attempt' || lock === null || isAhead || !this.draw.chance(this.options.burstPpm)) return null;
    const { breaksAt, pause } = this.drawBurst(lock.client.name, now);
    this.breaksAt[lock.client.index] = breaksAt;
    return pause;
  }

  private drawBurst(process: string, now: TrueTime): Burst {
    const { draw } = this;
    const atUs = now + draw.between(1, draw.pick([3_000, 20_000, 100_000]));
    const forUs = draw.between(1_000, draw.pick([20_000, 200_000]));
    const first = draw.chance(HALF_PPM) ? ({ first: 'timers' } as const) : {};
    return { breaksAt: atUs + draw.below(forUs), pause: { kind: 'pause', process, atUs, forUs, ...first } };
  }

  /** A crash, as a process that dies or as a machine that goes off. */
  asDrawn(fault: Fault): Fault {
    return fault.kind === 'crash' && this.draw.chance(this.options.silentPpm) ? { ...fault, power: true } : fault;
  }

  fate({ client }: Message, direction: Direction, fate: FateSlot, { now }: WorldView): void {
    if (direction === 'reply') return;
    const { draw } = this;
    const leftUs = (this.breaksAt[client] ?? 0) - now;
    if (leftUs > 0 && draw.chance(MOST_PPM)) fate.resendAfterUs = leftUs;
    else if (draw.chance(this.options.resetPpm))
      fate.resendAfterUs = draw.below(draw.pick([5_000, 100_000, 1_000_000]));
  }
}
