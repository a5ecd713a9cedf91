import type { ProcessName } from '../scenarios/index.js';
import type { Clock } from './clock.js';
import { type TrueTime, trueTime } from './time.js';

/** What clients and nodes have in common: a name, a clock of their own, and that they can be frozen or gone. */
export class Process {
  /** Position among its kind, from 0. */
  readonly index: number;
  name: ProcessName;
  /** Number in the trace: unique among all processes. */
  readonly traceId: number;
  /** The clock that it reads. */
  clock: Clock;
  /** Frozen until then; in the past if not. */
  pausedUntil: TrueTime = trueTime(-1);
  /** Its machine is suspended until then, with every process on it. */
  machineStillUntil: TrueTime = trueTime(-1);
  /** Of what waits until then: timers ahead of deliveries, or behind them. */
  timersFirst = false;
  down = false;
  /** When it last went down. */
  downSince: TrueTime = trueTime(0);
  /** How many times it died or was replaced: what had reached it but was not handled is lost with it. */
  life = 0;

  constructor(index: number, name: ProcessName, traceId: number, clock: Clock) {
    this.index = index;
    this.name = name;
    this.traceId = traceId;
    this.clock = clock;
  }

  /** As a new one; its clock is reset by its owner. */
  protected resetProcess(): void {
    this.pausedUntil = trueTime(-1);
    this.machineStillUntil = trueTime(-1);
    this.timersFirst = false;
    this.down = false;
    this.downSince = trueTime(0);
    this.life = 0;
  }

  /** Frozen until `until`, or longer if it is so already. */
  freeze(until: TrueTime, timersFirst: boolean): void {
    if (until <= this.pausedUntil) return;
    this.pausedUntil = until;
    this.timersFirst = timersFirst;
  }

  /** Its machine is suspended until `until`: who runs there is frozen, and so is who is started there meanwhile. */
  standStill(until: TrueTime): void {
    if (until > this.machineStillUntil) this.machineStillUntil = until;
    if (!this.down) this.freeze(until, false);
  }

  /** A new life begins, on a machine that may stand still. */
  started(): void {
    this.down = false;
    this.freeze(this.machineStillUntil, false);
  }

  /** Whatever was frozen is gone. */
  thaw(): void {
    this.pausedUntil = trueTime(-1);
  }
}
