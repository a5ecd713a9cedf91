import type { Operation } from '../../core/index.js';
import { type Fault, type LockPlan, plainLock } from '../../scenarios/index.js';
import { outage } from '../../search/outage.js';
import { premiseStream, RandomAdversary } from '../../search/random-adversary.js';
import { drawPremise, type RunConfig } from '../../search/run-config.js';
import { COMBINED } from '../../search/tactics.js';
import {
  type Adversary,
  type DecisionPoint,
  type Direction,
  type FateSlot,
  type Message,
  nodeName,
  type RandomStream,
  type SimLock,
  type StreamSource,
  type WorldView,
} from '../../sim/index.js';
import { ConnectionTrouble } from './connection-trouble.js';
import { type FaultClass, weatherOf } from './fault-classes.js';

/** Runs end this long after the last that is planned, µs, so that a call that hangs can be told. */
const REST_US = 20_000_000;

/** When everything has healed: so long after the beginning, and so long from one client's turn to the next, µs. */
const HEALED_TTLS = 16;
const HEALED_US = 30_000_000;
const TURN_US = 20_000_000;

/** How long a lock is held that a client gets in the end, µs. */
const LAST_HOLD_US = 100_000;

function healedUs(ttlMs: number): number {
  return HEALED_TTLS * ttlMs * 1000 + HEALED_US;
}

/** The run config of one run of a class of faults. */
export function drawLibraryPremise(faults: FaultClass, streams: StreamSource, run: number): RunConfig {
  const drawn = drawPremise(weatherOf(faults), COMBINED, premiseStream(streams, run));
  const { setup } = drawn;
  const link = faults.link ?? setup.cluster.link;
  const { replicaLagUs = setup.cluster.replicaLagUs } = faults;
  const cluster = { ...setup.cluster, link, replicaLagUs };
  return {
    ...drawn,
    ...(faults.always === undefined ? {} : { [faults.always]: true }),
    // What clients do to each other is what matters here.
    patience: null,
    reorders: false,
    setup: {
      ...setup,
      policy: weatherOf(faults).policy,
      ...(faults.views === undefined ? {} : { views: faults.views }),
      cluster: faults.atOnce ? alike(cluster) : cluster,
      untilUs: faults.heals
        ? healedUs(drawn.ttlMs) + setup.clients.length * TURN_US + REST_US
        : 8 * drawn.ttlMs * 1000 + REST_US,
    },
  };
}

/** With clocks that show the same. */
function alike(cluster: RunConfig['setup']['cluster']): RunConfig['setup']['cluster'] {
  return { ...cluster, clocks: cluster.clocks.map((it) => ({ ...it, offsetUs: 0 })) };
}

const LIBRARY_CONCERN = 6;
const CONNECTION_CONCERN = 7;
const TASK_CONCERN = 8;

/** Where all begin in one instant, it is this one, µs. */
const AT_ONCE_US = 1_000;

/** Processes that die in a run, at most. */
const MOST_DEATHS = 2;

/** Share of those that ask, or have a lock, that die soon after, as long as any may die. */
const DEATH_PPM = 400_000;

/** Share of the locks whose holders are cut off, and share of the acquisitions during which processes are paused, ppm. */
const CUT_PPM = 600_000;
const PAUSED_PPM = 400_000;
const HALF_PPM = 500_000;

/** Of two tasks of one process, share of those in which the second gets what the first has had for too long, ppm. */
const OVERTAKEN_PPM = 300_000;

/** When locks are released that are released late, thousandths of their TTL. */
const LATE_PERMILLE = [970, 1_000] as const;

/** Extensions of a lock where every lock is extended. */
const MOST_EXTENSIONS = 3;

/** Of a node that refuses; what is none of the others, as a handshake, counts as a look at a counter. */
const ALL_COMMANDS: readonly Operation[] = ['acquire', 'extend', 'release', 'read-counter'];

/** What has to be left of a lock for a write, µs: more than it takes to send it, and to arrive. */
const GUARD_US = 3_000;

/** From the look at a lock to the write, µs. */
const SEND_AFTER_US = 1_000;

/** Share of the locks under which is written. */
const WRITERS_PPM = 500_000;

function isBusy({ gone, state }: SimLock): boolean {
  return !gone && !['failed', 'released', 'lost'].includes(state.phase);
}

/** Draws what happens to libraries: as for the lock of `core`, but with work that suits libraries. */
export class LibraryAdversary implements Adversary {
  private readonly faults: FaultClass;
  private readonly runConfig: RunConfig;
  private readonly drawn: RandomAdversary;
  private readonly draw: RandomStream;
  private readonly healedUs: number;
  /** By client: whether it has asked for the last time. */
  private readonly isDone: boolean[] = [];
  private deathsLeft = MOST_DEATHS;
  /** Whose process has been told to die. */
  private dead: SimLock | null = null;
  /** Faults that strike together with the last that was drawn, or from the beginning on. */
  private readonly ahead: Fault[];
  /** By client: until when it is cut off, or paused, µs. */
  private readonly strickenUntil: number[] = [];
  private readonly tasks: RandomStream;
  /** By client: what it acquires besides the lock that was drawn last. */
  private readonly second: (LockPlan | null)[] = [];
  private readonly connections: ConnectionTrouble | null;

  constructor(faults: FaultClass, runConfig: RunConfig, streams: StreamSource, run: number) {
    this.faults = faults;
    this.runConfig = runConfig;
    this.drawn = new RandomAdversary(weatherOf(faults), runConfig, streams, run);
    this.draw = streams.stream(run, LIBRARY_CONCERN);
    this.tasks = streams.stream(run, TASK_CONCERN);
    const { connections } = faults;
    this.connections =
      connections === undefined ? null : new ConnectionTrouble(connections, streams.stream(run, CONNECTION_CONCERN));
    this.healedUs = faults.heals ? healedUs(runConfig.ttlMs) : Number.POSITIVE_INFINITY;
    this.ahead = this.fromTheBeginning();
  }

  private fromTheBeginning(): Fault[] {
    const { draw, faults, runConfig } = this;
    const { clients, cluster, untilUs } = runConfig.setup;
    const one = nodeName(draw.below(cluster.nodes));
    const { deadNode, minority } = faults;
    if (deadNode) return [outage('dead', one, untilUs, ALL_COMMANDS)];
    if (minority === undefined) return [];
    return draw.subset(cluster.nodes, Math.floor((cluster.nodes - 1) / 2)).map((index): Fault => {
      const node = nodeName(index);
      if (minority !== 'mute') return outage(minority, node, untilUs, ALL_COMMANDS);
      return { kind: 'partition', from: [node], to: [...clients], oneWay: true, atUs: 0, forUs: untilUs + 1 };
    });
  }

  nextLock(client: number, view: WorldView): LockPlan | null {
    const { besides } = this.faults;
    if (besides === undefined) return this.oneLock(client, view);
    const second = this.second[client] ?? null;
    this.second[client] = null;
    if (second !== null) return second;
    // Both tasks are over before the next two begin.
    if (view.clients[client]?.locks.some(isBusy)) return null;
    const first = this.oneLock(client, view);
    if (first === null || first.atUs >= this.healedUs) return first;
    const own = { ...first, extensions: [] };
    if (!this.tasks.chance(OVERTAKEN_PPM)) {
      this.second[client] = this.besideOf(own, besides);
      return own;
    }
    const { holdUs, beside } = this.overtaking(own);
    this.second[client] = beside;
    return { ...own, holdUs };
  }

  private besideOf({ atUs, ttlMs }: LockPlan, besides: readonly [string, ...string[]]): LockPlan {
    const { tasks } = this;
    const ttlUs = ttlMs * 1000;
    const afterUs = tasks.pick([0, tasks.below(20_000), tasks.below(ttlUs), tasks.below(2 * ttlUs)]);
    const holdUs = tasks.pick([tasks.below(20_000), tasks.below(ttlUs), tasks.between(ttlUs, 3 * ttlUs)]);
    return plainLock(atUs + afterUs, ttlMs, { holdUs, resources: [tasks.pick(besides)] });
  }

  /** The second task acquires what the first still has when it is over, and the first releases while the second holds it. */
  private overtaking({ atUs, ttlMs, resources }: LockPlan): { readonly holdUs: number; readonly beside: LockPlan } {
    const { tasks } = this;
    const ttlUs = ttlMs * 1000;
    const afterUs = ttlUs + tasks.between(ttlUs / 50, ttlUs / 2);
    const holdUs = afterUs + tasks.between(ttlUs / 10, ttlUs / 2);
    return { holdUs, beside: plainLock(atUs + afterUs, ttlMs, { holdUs: ttlUs, resources }) };
  }

  /** Held to the end or past it, and released some day: a lock that extends itself would be held for ever. */
  private oneLock(client: number, view: WorldView): LockPlan | null {
    const drawn = this.drawn.nextLock(client, view);
    if (drawn === null) return this.lastLock(client, view);
    const plan = this.inOneInstant(client, view) ? { ...drawn, atUs: AT_ONCE_US } : drawn;
    const ttlUs = this.runConfig.ttlMs * 1000;
    const holdUs = plan.holdUs ?? this.draw.between(ttlUs, 3 * ttlUs);
    if (this.faults.lateRelease)
      return {
        ...plan,
        holdUs: Math.floor((ttlUs / 1000) * this.draw.between(LATE_PERMILLE[0], LATE_PERMILLE[1])),
        writes: [],
      };
    if (this.faults.extending)
      return { ...plan, holdUs: 3 * ttlUs, writes: [], extensions: this.drawExtensions(ttlUs) };
    if (!this.faults.writes || !this.draw.chance(WRITERS_PPM)) return { ...plan, holdUs, writes: [] };
    // Given back when the longest pause after the latest look is over: who is asked for it earlier is not to blame.
    return { ...plan, holdUs: 3 * ttlUs + GUARD_US, writes: [this.drawWrite(ttlUs)] };
  }

  /** A node that is to stay away does so for a whole TTL: what of it a lock does not rely on is the lock's own affair. */
  private longEnough(fault: Fault): Fault {
    if (fault.kind !== 'crash' || fault.restartAfterUs === null || weatherOf(this.faults).restartDelayUs !== null)
      return fault;
    return { ...fault, restartAfterUs: Math.max(fault.restartAfterUs, this.runConfig.ttlMs * 1000) };
  }

  private inOneInstant(client: number, view: WorldView): boolean {
    return this.faults.atOnce === true && view.clients[client]?.locks.length === 0;
  }

  /** Asked for alone, when everything has healed: by each client in its turn, unless it is still busy then. */
  private lastLock(client: number, view: WorldView): LockPlan | null {
    const atUs = this.healedUs + client * TURN_US;
    const last = view.clients[client]?.locks.at(-1);
    if (this.isDone[client] || (last !== undefined && isBusy(last)) || view.now >= atUs || !Number.isFinite(atUs))
      return null;
    this.isDone[client] = true;
    return plainLock(atUs, this.runConfig.ttlMs, { holdUs: LAST_HOLD_US });
  }

  /** Each within what the one before it leaves, more often than not near its end. */
  private drawExtensions(ttlUs: number): LockPlan['extensions'] {
    const { draw, runConfig } = this;
    let afterUs = 0;
    return Array.from({ length: draw.between(1, MOST_EXTENSIONS) }, () => {
      afterUs += Math.floor((ttlUs / 100) * draw.pick([50, 90, 95, 97]));
      return { afterUs, ttlMs: runConfig.ttlMs };
    });
  }

  private drawWrite(withinUs: number): LockPlan['writes'][number] {
    const checkAfterUs = this.draw.below(withinUs);
    return { checkAfterUs, guardUs: GUARD_US, sendAfterUs: checkAfterUs + SEND_AFTER_US, delayUs: 1_000 };
  }

  jitterPpm(): number {
    return this.drawn.jitterPpm();
  }

  fate(message: Message, direction: Direction, send: number, fate: FateSlot, view: WorldView): void {
    if (view.now >= this.healedUs) return;
    this.drawn.fate(message, direction, send, fate, view);
    this.connections?.fate(message, direction, fate, view);
  }

  nextFault(moment: DecisionPoint, lock: SimLock | null, view: WorldView): Fault | null {
    const first = this.ahead.shift();
    if (first !== undefined) return first;
    if (view.now >= this.healedUs) return null;
    const { connections } = this;
    const drawn = this.ofItsOwn(moment, lock, view) ?? this.drawn.nextFault(moment, lock, view);
    if (drawn === null) return connections?.nextFault(moment, lock, view) ?? null;
    const fault = this.longEnough(connections?.asDrawn(drawn) ?? drawn);
    const [write] = lock?.plan.writes ?? [];
    if (fault?.kind !== 'pause' || fault.process !== lock?.client.name || write === undefined) return fault;
    // Where a pause matters to who writes: between its look at the lock and the write.
    return { ...fault, atUs: view.now + write.checkAfterUs + SEND_AFTER_US / 2 };
  }

  /** What the class does besides what every search draws. */
  private ofItsOwn(moment: DecisionPoint, lock: SimLock | null, view: WorldView): Fault | null {
    if (moment === 'start' || lock === null) return null;
    const { strikes } = this.faults;
    if (strikes === 'holders' && moment === 'claim') return this.cutOff(lock, view);
    if (strikes === 'askers' && moment === 'attempt') return this.pauseOf(lock, view);
    return this.death(lock, view);
  }

  private isSpared({ client }: SimLock, ppm: number, { now }: WorldView): boolean {
    return (this.strickenUntil[client.index] ?? 0) > now || !this.draw.chance(ppm);
  }

  /**
   * No majority of the nodes hears who has a lock, until after its keys have expired: what it sends is lost, or comes when
   * that is over, or is refused.
   */
  private cutOff(lock: SimLock, view: WorldView): Fault | null {
    const { draw, runConfig, ahead } = this;
    if (this.isSpared(lock, CUT_PPM, view)) return null;
    const { index, name } = lock.client;
    const { nodes } = runConfig.setup.cluster;
    const ttlUs = runConfig.ttlMs * 1000;
    const span = { atUs: view.now + draw.between(1, ttlUs / 2), forUs: draw.between(ttlUs, 2 * ttlUs) };
    this.strickenUntil[index] = span.atUs + span.forUs;
    const to = draw.subset(nodes, draw.pick([Math.ceil(nodes / 2), nodes])).map(nodeName);
    const how = draw.pick(['loses', 'holds', 'refuses']);
    if (how === 'refuses') {
      ahead.push(...to.map((node): Fault => ({ kind: 'error-replies', node, operations: ALL_COMMANDS, ...span })));
      return ahead.shift() ?? null;
    }
    return { kind: 'partition', from: [name], to, oneWay: false, ...span, ...(how === 'holds' ? { holds: true } : {}) };
  }

  /** Who asks for a lock is paused before it has read all answers, and the lock may be over as it goes on. */
  private pauseOf(lock: SimLock, view: WorldView): Fault | null {
    const { draw, runConfig } = this;
    if (this.isSpared(lock, PAUSED_PPM, view)) return null;
    const { index, name } = lock.client;
    const ttlUs = runConfig.ttlMs * 1000;
    const atUs = view.now + 1 + draw.below(draw.pick([1, 3]) * this.roundTripUs);
    const forUs = draw.between(ttlUs / 2, 2 * ttlUs);
    this.strickenUntil[index] = atUs + forUs;
    const first = draw.chance(HALF_PPM) ? ({ first: 'timers' } as const) : {};
    return { kind: 'pause', process: name, atUs, forUs, ...first };
  }

  private get roundTripUs(): number {
    return 2 * this.runConfig.mostDelayUs + 100;
  }

  /** Who asks for a lock, or has just got it, dies soon: most of what it does then takes as long as two messages. */
  private death(lock: SimLock, view: WorldView): Fault | null {
    const { draw, runConfig, roundTripUs } = this;
    if (!this.faults.dying || this.deathsLeft === 0) return null;
    if (this.dead === lock || !draw.chance(DEATH_PPM)) return null;
    this.deathsLeft--;
    this.dead = lock;
    const again = draw.chance(500_000) ? { restartAfterUs: draw.below(runConfig.ttlMs * 1000) } : {};
    const atUs = view.now + 1 + draw.below(draw.pick([roundTripUs, 3 * roundTripUs]));
    return { kind: 'client-crash', client: lock.client.name, atUs, ...again };
  }
}
