import type { Fault, LockPlan } from '../../scenarios/index.js';
import { DrawnAdversary, premiseStream } from '../../search/drawn.js';
import { drawPremise, type Premise } from '../../search/premise.js';
import { COMBINED } from '../../search/tactics.js';
import type {
  Adversary,
  Direction,
  FateSlot,
  LockRun,
  Message,
  Moment,
  Stream,
  StreamSource,
  WorldView,
} from '../../sim/index.js';
import { ConnectionTrouble } from './connection-trouble.js';
import { type FaultClass, weatherOf } from './fault-classes.js';

/** Runs end this long after the last that is planned, µs, so that a call that hangs can be told. */
const REST_US = 20_000_000;

/** The premise of one run of a class of faults. */
export function drawGuestPremise(faults: FaultClass, streams: StreamSource, run: number): Premise {
  const drawn = drawPremise(weatherOf(faults), COMBINED, premiseStream(streams, run));
  const { setup } = drawn;
  const link = faults.link ?? setup.cluster.link;
  return {
    ...drawn,
    ...(faults.always === undefined ? {} : { [faults.always]: true }),
    // What clients do to each other is what matters here.
    patience: null,
    reorders: false,
    setup: {
      ...setup,
      policy: weatherOf(faults).policy,
      cluster: { ...setup.cluster, link },
      untilUs: 8 * drawn.ttlMs * 1000 + REST_US,
    },
  };
}

const GUEST_CONCERN = 6;
const CONNECTION_CONCERN = 7;

/** What has to be left of a lock for a write, µs: more than it takes to send it, and to arrive. */
const GUARD_US = 3_000;

/** From the look at a lock to the write, µs. */
const SEND_AFTER_US = 1_000;

/** Share of the locks under which is written. */
const WRITERS_PPM = 500_000;

/** Draws what happens to guests: as for the lock of `core`, but with work that suits libraries. */
export class GuestAdversary implements Adversary {
  private readonly faults: FaultClass;
  private readonly premise: Premise;
  private readonly drawn: DrawnAdversary;
  private readonly draw: Stream;
  private deadNode: Fault | null;
  private readonly connections: ConnectionTrouble | null;

  constructor(faults: FaultClass, premise: Premise, streams: StreamSource, run: number) {
    this.faults = faults;
    this.premise = premise;
    this.drawn = new DrawnAdversary(weatherOf(faults), premise, streams, run);
    this.draw = streams.stream(run, GUEST_CONCERN);
    const node = `n${this.draw.below(premise.setup.cluster.nodes)}`;
    const { connections } = faults;
    this.connections =
      connections === undefined ? null : new ConnectionTrouble(connections, streams.stream(run, CONNECTION_CONCERN));
    this.deadNode = faults.deadNode ? { kind: 'crash', node, atUs: 0, restartAfterUs: null } : null;
  }

  /** Held to the end or past it, and given back some day: a lock that extends itself would be held for ever. */
  nextLock(client: number, view: WorldView): LockPlan | null {
    const plan = this.drawn.nextLock(client, view);
    if (plan === null) return null;
    const ttlUs = this.premise.ttlMs * 1000;
    const holdUs = plan.holdUs ?? this.draw.between(ttlUs, 3 * ttlUs);
    if (!this.faults.writes || !this.draw.chance(WRITERS_PPM)) return { ...plan, holdUs, writes: [] };
    // Given back when the longest pause after the latest look is over: who is asked for it earlier is not to blame.
    return { ...plan, holdUs: 3 * ttlUs + GUARD_US, writes: [this.drawWrite(ttlUs)] };
  }

  /** A node that is to stay away does so for a whole TTL: what of it a lock does not rely on is the lock's own affair. */
  private longEnough(fault: Fault): Fault {
    if (fault.kind !== 'crash' || fault.restartAfterUs === null || weatherOf(this.faults).restartDelayUs !== null)
      return fault;
    return { ...fault, restartAfterUs: Math.max(fault.restartAfterUs, this.premise.ttlMs * 1000) };
  }

  private drawWrite(withinUs: number): LockPlan['writes'][number] {
    const checkAfterUs = this.draw.below(withinUs);
    return { checkAfterUs, guardUs: GUARD_US, sendAfterUs: checkAfterUs + SEND_AFTER_US, delayUs: 1_000 };
  }

  jitterPpm(): number {
    return this.drawn.jitterPpm();
  }

  fate(message: Message, direction: Direction, send: number, fate: FateSlot, view: WorldView): void {
    this.drawn.fate(message, direction, send, fate, view);
    this.connections?.fate(message, direction, fate, view);
  }

  nextFault(moment: Moment, lock: LockRun | null, view: WorldView): Fault | null {
    const { deadNode } = this;
    this.deadNode = null;
    const { connections } = this;
    const drawn = deadNode ?? this.drawn.nextFault(moment, lock, view);
    if (drawn === null) return connections?.nextFault(moment, lock, view) ?? null;
    const fault = this.longEnough(connections?.asDrawn(drawn) ?? drawn);
    const [write] = lock?.plan.writes ?? [];
    if (fault?.kind !== 'pause' || fault.process !== lock?.client.name || write === undefined) return fault;
    // Where a pause matters to who writes: between its look at the lock and the write.
    return { ...fault, atUs: view.now + write.checkAfterUs + SEND_AFTER_US / 2 };
  }
}
