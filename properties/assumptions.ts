import {
  deviates,
  deviationNumber,
  driftAllowanceUs,
  type Habits,
  hasFencingTokens,
  type Policy,
  policyWithTiming,
  quorumOf,
} from '../deviations/index.js';
import type { Cluster, Crash, Failover, ProcessName, Schedule } from '../scenarios/index.js';
import { ttlsMsOf } from '../scenarios/ttls.js';
import { nodeName } from '../sim/index.js';

/**
 * The assumptions of Redlock. `clock-drift` and `clock-step`: client and node clocks measure a TTL alike up to the
 * drift allowance; a clock that stops counts as set back. `durability`: a node that voted does not come back without
 * its keys while a claim lasts. `durable-failover`: a replica that takes over has everything, and its master is gone.
 * `same-membership`: all clients have the same nodes, each once, and call a resource by the same key. `bounded-write-delay`: what a
 * client does after its last look at the lock happens within the validity it then had.
 *
 * `counters`, which only fencing tokens rest on: at no instant do fewer than a quorum of the nodes know their counter. A node
 * knows it from when it was given one, by a client that copied it from a quorum or by an operator, until its process ends or its
 * memory is lost, replaced or set back. So nodes may lose counters and come back with older ones at any time and any number of times,
 * one after the other, as long as others have rejoined before. What breaks is that tokens are to be had: they rise even then.
 */
export type Assumption =
  | 'clock-drift'
  | 'clock-step'
  | 'durability'
  | 'counters'
  | 'durable-failover'
  | 'same-membership'
  | 'bounded-write-delay';

/** What is known of a run of a schedule. */
interface SeenOfRun {
  /** The least number of votes behind a claim. Default: a quorum. */
  readonly votes?: number;
  /** The least number of nodes that knew their fencing counter at any time. Default: all but those that any fault takes it from. */
  readonly fewestCounters?: number;
}

const MILLION = 1_000_000n;

/**
 * Which assumptions a schedule does not keep. They are sufficient, not necessary: latency only adds slack, so a
 * schedule may break one and still be safe. Every vote above the quorum allows one node that forgets or whose clock is off.
 * When nodes rejoin depends on who asks for locks, and so `counters` is judged by the run; without one, as if none did.
 */
export function assumptions(schedule: Schedule, policy: Policy, seen: SeenOfRun = {}): Assumption[] {
  const quorum = quorumOf(policy, schedule.cluster.nodes);
  const { votes, fewestCounters = leastCounters(schedule) } = seen;
  const spare = Math.max(0, (votes ?? quorum) - quorum);
  const broken: Assumption[] = [];
  const clocks = new Clocks(schedule, policy);
  const ttls = ttlsMsOf(schedule);
  const clients = schedule.clients.map((client) => client.id);
  const nodes = Array.from({ length: schedule.cluster.nodes }, (_, i) => nodeName(i));

  const outruns = (steps: boolean) => (node: ProcessName) =>
    clients.some((client) => ttls.some((ttl) => !clocks.agree(ttl, client, node, steps)));
  const forgets = (node: ProcessName): boolean =>
    schedule.faults.some((it) => it.kind === 'data-loss' && it.node === node) ||
    schedule.faults.some(
      (it) =>
        it.kind === 'crash' &&
        it.node === node &&
        mayForget(schedule.cluster, it) &&
        it.restartAfterUs !== null &&
        !clients.every((client) => ttls.every((ttl) => clocks.outlasts(ttl, client, clocks.leastAway(it)))),
    );

  const byRate = nodes.filter(outruns(false));
  const byStep = nodes.filter(outruns(true));
  const amnesiac = nodes.filter(forgets);
  const faulty = new Set([...byStep, ...amnesiac]);
  if (faulty.size > spare) {
    if (byRate.length > 0) broken.push('clock-drift');
    if (byStep.length > byRate.length) broken.push('clock-step');
    if (amnesiac.length > 0) broken.push('durability');
  }
  if (hasFencingTokens(policy) && fewestCounters < quorum) broken.push('counters');
  if (schedule.faults.some((it) => it.kind === 'failover' && losesWrites(it, schedule)))
    broken.push('durable-failover');
  if (!sameNodes(schedule)) broken.push('same-membership');
  if (!effectsArePrompt(schedule, clocks)) broken.push('bounded-write-delay');
  return broken;
}

/** How many nodes keep their counter from the beginning to the end. */
function leastCounters({ cluster, faults }: Schedule): number {
  const losing = faults.flatMap((it) => {
    if (it.kind === 'crash' || (it.kind === 'data-loss' && it.resource === undefined)) return [it.node];
    return it.kind === 'failover' ? [it.to ?? it.node] : [];
  });
  return cluster.nodes - new Set(losing).size;
}

/** Whether all clients at all times go to the same nodes, each once, for the same key. */
function sameNodes({ clients, cluster, faults }: Schedule): boolean {
  const all = Array.from({ length: cluster.nodes }, (_, i) => nodeName(i));
  const own = clients.map(({ nodes, keyPrefix = '' }) => ({ nodes: nodes ?? all, keyPrefix }));
  const later = faults.flatMap((it) =>
    it.kind === 'reconfigure' && clients.some(({ id }) => id === it.client) ? [it.nodes] : [],
  );
  // A client that goes to a replica which took over goes to its master.
  const master = (name: ProcessName): ProcessName =>
    faults.find((it): it is Failover => it.kind === 'failover' && it.to === name)?.node ?? name;
  const lists = [...own.map(({ nodes }) => nodes), ...later].map((list) => list.map(master));
  const [first = []] = lists;
  const once = new Set(first).size === first.length;
  const same = lists.every((list) => list.length === first.length && list.every((node) => first.includes(node)));
  return once && same && own.every(({ keyPrefix }) => keyPrefix === own[0]?.keyPrefix);
}

/** Whether a failover can lose what its master had acknowledged, or leave the master in business. */
function losesWrites({ node, to, lagUs, atUs }: Failover, { cluster, faults }: Schedule): boolean {
  const waitedUs = cluster.answers === 'replicated' ? (cluster.replicaLagUs ?? 0) : 0;
  if ((lagUs ?? cluster.replicaLagUs ?? 0) > waitedUs) return true;
  const dead = faults.some(
    (it) => it.kind === 'crash' && it.node === node && it.restartAfterUs === null && it.atUs <= atUs,
  );
  return to !== undefined && !dead;
}

/** Whether a crash can cost a node what it had acknowledged. */
function mayForget({ persistence, fsync, answers }: Cluster, crash: Crash): boolean {
  if (persistence === 'none' || (crash.ageUs ?? 0) > 0) return true;
  if (crash.clean === true || (persistence === 'always' && answers !== 'executed')) return false;
  return persistence === 'rdb' || (answers !== 'durable' && (crash.power === true || (fsync?.takesUs ?? 0) > 0));
}

/** The worst that each clock of a schedule does. */
class Clocks {
  private readonly schedule: Schedule;
  private readonly policy: Policy;

  constructor(schedule: Schedule, policy: Policy) {
    this.schedule = schedule;
    this.policy = policy;
  }

  /** All rates a clock ever runs at, ppm. */
  private rates(process: ProcessName): number[] {
    const plan = this.schedule.cluster.clocks.find((clock) => clock.process === process);
    const changes = this.schedule.faults.flatMap((fault) =>
      fault.kind === 'clock-drift' && fault.process === process ? [fault.ratePpm] : [],
    );
    return [plan?.ratePpm ?? 0, ...changes];
  }

  /** The clock that a client reads. */
  private clockOf(client: ProcessName): Habits['clock'] {
    return this.schedule.clients.find(({ id }) => id === client)?.timing?.clock ?? this.policy.habits.clock;
  }

  private offset(process: ProcessName): number {
    return this.schedule.cluster.clocks.find((clock) => clock.process === process)?.offsetUs ?? 0;
  }

  /**
   * Sum of all steps of a clock in one direction, µs, as a positive number. Those of a client miss all but wall clocks. To
   * keys, a replica's other clock is a step.
   */
  private steps(process: ProcessName, sign: 1 | -1): number {
    if (process.startsWith('c') && this.clockOf(process) !== 'wall') return 0;
    let sum = 0;
    for (const fault of this.schedule.faults) {
      if (fault.kind === 'failover' && fault.to === process) {
        sum += Math.max(0, sign * (this.offset(process) - this.offset(fault.node)));
      }
      if (fault.kind === 'clock-step' && fault.process === process) sum += Math.max(0, sign * fault.byUs);
    }
    return sum;
  }

  /** How far a client's clock falls back in all: by steps, and by standing still while the machine does. */
  private fallsBack(client: ProcessName): number {
    let sum = this.steps(client, -1);
    for (const fault of this.schedule.faults) {
      if (fault.kind !== 'suspend' || fault.process !== client) continue;
      if (fault.stops === 'all' || this.clockOf(client) === 'monotonic') sum += fault.forUs;
    }
    return sum;
  }

  /** The most that a clock can advance, jumps included, in this much true time, µs. */
  mostShown(process: ProcessName, us: number): number {
    const fast = Math.max(0, ...this.rates(process));
    // On a fast clock, a timer may fire when more than its deadline is shown.
    const gained = fast === 0 ? 0 : Math.ceil((us * fast) / Number(MILLION)) + 1;
    return us + gained + this.steps(process, 1);
  }

  /**
   * Whether a client cuts its time stamps where the node's clock ticks: then a key set in the tick in which a claim begins
   * is not gone before the tick in which that claim ends.
   */
  private inPhase(client: ProcessName, node: ProcessName): boolean {
    const { cluster, clients, faults } = this.schedule;
    const { resolutionUs } = cluster;
    const policy = policyWithTiming(this.policy, clients.find(({ id }) => id === client)?.timing);
    if (deviates(policy, 'deadline-counted-after-us', 'deadline-whole-ttl')) return false;
    if ((deviationNumber(policy, 'deadline-stamps-us') ?? 1) % resolutionUs !== 0) return false;
    const isWhole = (us: number): boolean => us % resolutionUs === 0;
    const changed = faults.some((it) => {
      if (it.kind === 'clock-step') return (it.process === client || it.process === node) && !isWhole(it.byUs);
      return (it.kind === 'suspend' && it.process === client) || (it.kind === 'failover' && it.to === node);
    });
    const rates = [...this.rates(client), ...this.rates(node)];
    return !changed && rates.every((rate) => rate === 0) && isWhole(this.offset(client) - this.offset(node));
  }

  /** Whether a key outlives every claim to it: (TTL − D + back) / (1 + r_c) ≤ (TTL − g − forward) / (1 + r_n). */
  agree(ttlMs: number, client: ProcessName, node: ProcessName, steps: boolean): boolean {
    const { expiry, resolutionUs } = this.schedule.cluster;
    const shortfall = expiry === 'at' && !this.inPhase(client, node) ? resolutionUs : 0;
    const ttl = ttlMs * 1000;
    const claim = ttl - driftAllowanceUs(this.policy, ttl) + (steps ? this.fallsBack(client) : 0);
    const life = ttl - shortfall - (steps ? this.steps(node, 1) : 0);
    const slow = BigInt(Math.min(...this.rates(client)));
    const fast = BigInt(Math.max(...this.rates(node)));
    return BigInt(claim) * (MILLION + fast) <= BigInt(life) * (MILLION + slow);
  }

  /** The least true time that a node stays away, µs: where its own clock measures that, less than it shows. */
  leastAway({ node, restartAfterUs, restartBy }: Crash): number {
    const us = restartAfterUs ?? 0;
    if (restartBy !== 'node-clock') return us;
    const fast = Math.max(0, ...this.rates(node));
    return Math.max(0, Math.floor((us - this.steps(node, 1)) / (1 + fast / Number(MILLION))));
  }

  /** Whether a node that answers again only this long after its crash finds no claim that it voted for before. */
  outlasts(ttlMs: number, client: ProcessName, restartAfterUs: number): boolean {
    const ttl = ttlMs * 1000;
    const claim = ttl - driftAllowanceUs(this.policy, ttl) + this.fallsBack(client);
    const slow = BigInt(Math.min(...this.rates(client)));
    return BigInt(restartAfterUs) * (MILLION + slow) >= BigInt(claim) * MILLION;
  }
}

/**
 * Whether every write arrives before anything can end the belief that it was checked under: its guard covers the pauses
 * and delays from the check to the arrival by the client's own clock, and it neither follows the release nor outlives
 * the client.
 */
function effectsArePrompt(schedule: Schedule, clocks: Clocks): boolean {
  return schedule.clients.every((client) => {
    const pauses = schedule.faults.flatMap((it) =>
      (it.kind === 'pause' || it.kind === 'suspend') && it.process === client.id ? [it.forUs] : [],
    );
    const paused = pauses.reduce((sum, us) => sum + us, 0);
    const mortal = schedule.faults.some((it) => it.kind === 'client-crash' && it.client === client.id);
    return client.locks.every((lock) =>
      lock.writes.every((write) => {
        const late = clocks.mostShown(client.id, paused + write.delayUs);
        const inClaim = write.guardUs !== null && write.guardUs > write.sendAfterUs - write.checkAfterUs + late;
        const inHold = lock.holdUs === null || write.sendAfterUs + late <= lock.holdUs;
        return inClaim && inHold && !(mortal && write.delayUs > 0);
      }),
    );
  });
}
