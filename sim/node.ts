import {
  type Answer,
  type Command,
  LONGEST_US,
  type LocalTime,
  type LockPolicy,
  localTime,
  type Operation,
  type Rules,
} from '../core/index.js';
import { Clock } from './clock.js';
import type { ClusterSetup } from './cluster-setup.js';
import { FencingCounter } from './counter.js';
import { Journal, Keys, NO_TOKEN } from './keys.js';
import { nodeName } from './node-name.js';
import { Process } from './process.js';
import type { QueueEvent } from './queue.js';
import type { RunContext } from './run-context.js';
import { ScriptCache } from './scripts.js';
import { type TrueTime, trueTime } from './time.js';
import { NODE_BASE } from './trace.js';

/** Has the node look at its keys again when its clock shows `at`. */
export type ArmExpiry = (node: SimNode, at: LocalTime) => QueueEvent;

const NEVER = localTime(LONGEST_US);

/** The expiry, in ticks, of a key that has none. */
const FOREVER = 2 ** 42;

const NOTHING: readonly Operation[] = [];
const NO_KEYS: readonly number[] = [];

/**
 * One Redis node: keys with an expiry on its own clock, checked when they are looked at, a fencing counter, and the
 * commands with the meaning that their Lua text has on a real server.
 */
export class SimNode extends Process {
  readonly keys: Keys = new Keys();
  readonly counter: FencingCounter;
  readonly scripts: ScriptCache = new ScriptCache();
  /** When it will look for expired keys next, and the event of that look; others are stale. */
  private lookAt: LocalTime = NEVER;
  private look: QueueEvent | null = null;
  private readonly journal = new Journal();
  /** Operations it answers with an error, and until when. */
  private refused: readonly Operation[] = NOTHING;
  private refusesUntil: TrueTime = trueTime(0);
  /** Whether a replica listens: one that has taken over does not. */
  hasReplica = true;
  /** How far it is behind, µs; `null` for none. */
  replicaLagUs: number | null = null;
  private ttlRestarts = false;
  private journaling = false;
  private readonly context: RunContext;
  private readonly armExpiryEvent: ArmExpiry;
  private tickUs = 1000;
  private ticksPerMs = 1;
  private persists = false;

  constructor(
    index: number,
    cluster: ClusterSetup,
    context: RunContext,
    armExpiry: ArmExpiry,
    offsetUs: number,
    ratePpm: number,
  ) {
    super(index, nodeName(index), NODE_BASE + index, new Clock(offsetUs, ratePpm));
    this.context = context;
    this.armExpiryEvent = armExpiry;
    this.counter = new FencingCounter(this, context, false);
    this.configure(cluster);
  }

  private configure(cluster: ClusterSetup): void {
    this.replicaLagUs = cluster.replicaLagUs;
    this.journaling = cluster.replicaLagUs !== null || cluster.persistence !== 'none';
    this.ttlRestarts = cluster.expiryAtLoad === 'restarts';
    this.tickUs = cluster.resolutionUs;
    this.ticksPerMs = 1000 / cluster.resolutionUs;
    this.keys.tickUs = cluster.resolutionUs;
    this.keys.graceTicks = cluster.expiry === 'at' ? 0 : 1;
    this.persists = cluster.persistence !== 'none';
    this.counter.reset(this.journaling);
  }

  /** As a new one in this place. */
  reset(cluster: ClusterSetup, offsetUs: number, ratePpm: number): void {
    this.resetProcess();
    this.clock.reset(offsetUs, ratePpm);
    this.keys.reset();
    this.scripts.reset();
    this.lookAt = NEVER;
    this.look = null;
    this.journal.length = 0;
    this.refused = NOTHING;
    this.refusesUntil = trueTime(0);
    this.hasReplica = true;
    this.configure(cluster);
  }

  /** Carries out a command at `now` and answers as the scripts of its policy do. */
  execute({ settings, rules }: LockPolicy, command: Command, keys: readonly number[], now: TrueTime): Answer {
    this.counter.told = 0;
    if (this.refuses(command.operation, now)) return 'error';
    const local = this.clock.read(now);
    for (let i = 0; i < keys.length; i++) this.dropIfExpired(keys[i] as number, local);
    switch (command.operation) {
      case 'acquire':
        if (!this.set(rules, command, keys, local)) return 'no';
        if (settings.fencing || rules.scripts.counter.countsGrants) this.counter.granted(rules.scripts.counter, now);
        return 'yes';
      case 'extend':
        return this.extend(rules, command, keys, local) ? 'yes' : 'no';
      case 'release':
        return this.release(rules, command, keys, now) ? 'yes' : 'no';
      default:
        return this.counter.execute(rules.scripts.counter, command, now);
    }
  }

  /** When a key expires that is set or extended by a command, ticks. */
  private endOf(rules: Rules, { ttlMs, attempt }: Command, local: LocalTime): number {
    return Math.floor(local / this.tickUs) + rules.keyLife(ttlMs, attempt) * this.ticksPerMs;
  }

  private set(rules: Rules, command: Command, keys: readonly number[], local: LocalTime): boolean {
    const { onto, renews } = rules.scripts.acquire;
    const token = command.token as number;
    if (onto !== 'any' && this.holdsAny(keys, onto === 'missing-or-own' ? token : NO_TOKEN)) return false;
    const keepsOwn = onto === 'missing-or-own' && !renews;
    const end = this.endOf(rules, command, local);
    this.setAll(keepsOwn ? keys.filter((key) => !this.holds(key)) : keys, token, end, this.context.now);
    return true;
  }

  private extend(rules: Rules, command: Command, keys: readonly number[], local: LocalTime): boolean {
    const { onto } = rules.scripts.extend;
    const { now } = this.context;
    const token = command.token as number;
    const end = this.endOf(rules, command, local);
    for (const key of keys) {
      const stored = this.keys.tokenAt(key);
      const extendable =
        onto === 'any' ||
        (onto === 'present' ? stored !== NO_TOKEN : stored === token) ||
        (stored === NO_TOKEN && (onto === 'heals' || onto === 'own-or-missing'));
      if (!extendable) return false;
    }
    if (onto === 'any' || onto === 'own-or-missing') this.setAll(keys, token, end, now);
    else {
      const missing = onto === 'heals' ? keys.filter((key) => !this.holds(key)) : NO_KEYS;
      if (missing.length > 0) this.setAll(missing, token, end, now);
      for (const key of keys) {
        if (onto === 'present' || (this.keys.when[key] ?? 0) < end) this.setExpiry(key, end, now);
      }
    }
    return true;
  }

  private setExpiry(key: number, when: number, now: TrueTime): void {
    const stored = this.keys.tokenAt(key);
    this.keys.endAt(key, when);
    this.record(key, stored, now);
    this.armExpiry(key);
    this.context.keyLengthened(this, key, stored, this.goneAt(key));
  }

  private release({ scripts }: Rules, command: Command, keys: readonly number[], now: TrueTime): boolean {
    const { onto, asks } = scripts.release;
    const token = command.token as number;
    if (asks !== null && command.round === 0) return keys.some((key) => this.keys.tokenAt(key) === token);
    let deleted = false;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as number;
      const stored = this.keys.tokenAt(key);
      if (stored === NO_TOKEN || (onto === 'own' && stored !== token)) continue;
      this.keys.drop(key);
      this.record(key, NO_TOKEN, now);
      this.context.keyGone(this, key, stored, 'deleted', token);
      deleted = true;
    }
    return deleted;
  }

  // ——— what a server does for commands that are not the core's ———

  /** Whether it may come back with what it had before. */
  get keepsHistory(): boolean {
    return this.journaling;
  }

  /** When what it has under a key was written. */
  writtenAt(key: number): TrueTime {
    return key < this.keys.count ? (this.keys.written[key] ?? trueTime(0)) : trueTime(0);
  }

  /** The token stored under a key at `now`, or {@link NO_TOKEN}. */
  stored(key: number, now: TrueTime): number {
    this.dropIfExpired(key, this.clock.read(now));
    return this.keys.tokenAt(key);
  }

  /** What is left of a key's TTL, ms: -1 for a key without, -2 for no key. */
  ttlMs(key: number, now: TrueTime): number {
    if (this.stored(key, now) === NO_TOKEN) return -2;
    const when = this.keys.when[key] ?? 0;
    return when >= FOREVER ? -1 : Math.floor((when - this.nowTicks(now)) / this.ticksPerMs);
  }

  /** `SET`: with a TTL, ms, without one (`null`), or with the one that the key has (`keep`). */
  store(key: number, token: number, ttlMs: number | null | 'keep', now: TrueTime): void {
    const kept = ttlMs === 'keep' && this.stored(key, now) !== NO_TOKEN ? (this.keys.when[key] ?? 0) : FOREVER;
    this.setAll([key], token, typeof ttlMs === 'number' ? this.nowTicks(now) + ttlMs * this.ticksPerMs : kept, now);
  }

  /** `PEXPIRE` and `PERSIST` (`null`) on a key that is there. */
  expireIn(key: number, ttlMs: number | null, now: TrueTime): void {
    this.setExpiry(key, ttlMs === null ? FOREVER : this.nowTicks(now) + ttlMs * this.ticksPerMs, now);
  }

  /** `DEL`, by a client that uses the token `by`, or {@link NO_TOKEN}. Says whether there was a key. */
  remove(key: number, by: number, now: TrueTime): boolean {
    const stored = this.stored(key, now);
    if (stored === NO_TOKEN) return false;
    this.keys.drop(key);
    this.record(key, NO_TOKEN, now);
    this.context.keyGone(this, key, stored, 'deleted', by);
    return true;
  }

  /** Whether it answers such commands with an error. */
  refuses(operation: Operation, now: TrueTime): boolean {
    return now < this.refusesUntil && this.refused.includes(operation);
  }

  /** Whether a key is stored, expired or not. */
  holds(key: number): boolean {
    return this.keys.tokenAt(key) !== NO_TOKEN;
  }

  /** Whether one of the keys is stored with a token other than `own`. */
  private holdsAny(keys: readonly number[], own: number): boolean {
    for (let i = 0; i < keys.length; i++) {
      const stored = this.keys.tokenAt(keys[i] as number);
      if (stored !== NO_TOKEN && stored !== own) return true;
    }
    return false;
  }

  private setAll(keys: readonly number[], token: number, when: number, now: TrueTime): void {
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i] as number;
      const stored = this.keys.tokenAt(key);
      if (key >= this.keys.count) this.keys.reserve(key);
      this.keys.tokens[key] = token;
      this.keys.endAt(key, when);
      this.record(key, token, now);
      this.armExpiry(key);
      if (stored === token) continue;
      if (stored !== NO_TOKEN) this.context.keyGone(this, key, stored, 'overwritten', token);
      this.context.keySet(this, key, token, this.goneAt(key));
    }
  }

  private nowTicks(now: TrueTime): number {
    return Math.floor(this.clock.read(now) / this.tickUs);
  }

  private dropIfExpired(key: number, local: LocalTime): void {
    const stored = this.keys.tokenAt(key);
    if (stored === NO_TOKEN || local < (this.keys.gone[key] ?? 0)) return;
    this.keys.drop(key);
    this.context.keyGone(this, key, stored, 'expired', NO_TOKEN);
  }

  /** Makes sure that the node looks at the key as soon as it is gone. */
  private armExpiry(key: number): void {
    const at = this.goneAt(key);
    if (at >= this.lookAt) return;
    this.lookAt = at;
    this.look = this.armExpiryEvent(this, at);
  }

  /** The first reading of this node's clock at which the key is gone. */
  goneAt(key: number): LocalTime {
    return localTime(key < this.keys.count ? (this.keys.gone[key] ?? 0) : 0);
  }

  /** The time has come to look, unless another look was asked for since. Says whether it has. */
  expire(look: QueueEvent): boolean {
    if (this.down || look !== this.look) return false;
    this.dropAllExpired(look.at);
    return true;
  }

  private dropAllExpired(now: TrueTime): void {
    this.lookAt = NEVER;
    const local = this.clock.read(now);
    for (let key = 0; key < this.keys.count; key++) {
      this.dropIfExpired(key, local);
      if (this.holds(key)) this.armExpiry(key);
    }
  }

  stepClock(at: TrueTime, byUs: number): void {
    this.clock.step(at, byUs);
  }

  setClockRate(at: TrueTime, ratePpm: number): void {
    this.clock.setRate(at, ratePpm);
  }

  /** Its wall clock goes on, or is right again when it wakes, unless the machine is paused from outside. */
  suspendClocks(at: TrueTime, until: TrueTime, stops: 'monotonic' | 'all'): void {
    if (stops === 'all') this.clock.stop(at, until);
  }

  /** The clock changed: every key expires at another true time now. */
  clockChanged(now: TrueTime): void {
    if (!this.down) this.dropAllExpired(now);
  }

  /** Comes back with what had happened by `keptUntil`. While it was down it could vote for nobody. */
  restart(keptUntil: number, now: TrueTime): void {
    this.started();
    this.scripts.lose();
    if (keptUntil < now) this.restore(this.journal, keptUntil);
    this.counter.restore(keptUntil, this.persists, now);
    if (this.ttlRestarts) this.restartTtls(now);
    this.dropAllExpired(now);
  }

  private restartTtls(now: TrueTime): void {
    for (let key = 0; key < this.keys.count; key++) {
      if (this.holds(key)) this.keys.endAt(key, this.nowTicks(now) + (this.keys.lives[key] ?? 0));
    }
  }

  /** Answers these operations with an error until then. */
  refuse(operations: readonly Operation[], until: TrueTime): void {
    this.refused = operations;
    this.refusesUntil = until;
  }

  /** Loses a key, or all of them (`null`), while it runs. */
  lose(key: number | null, now: TrueTime): void {
    // The counter does not expire: eviction passes it by.
    if (key === null) this.counter.lose(now);
    for (let it = 0; it < this.keys.count; it++) {
      if ((key !== null && it !== key) || !this.holds(it)) continue;
      this.forget(it);
      this.record(it, NO_TOKEN, now);
    }
  }

  private forget(key: number): void {
    const stored = this.keys.tokenAt(key);
    if (stored === NO_TOKEN) return;
    this.keys.drop(key);
    this.context.keyGone(this, key, stored, 'forgotten', NO_TOKEN);
  }

  /** Writes a change down, where a disk or a replica may have to tell of it. */
  private record(key: number, token: number, now: TrueTime): void {
    if (this.ttlRestarts) this.keys.lives[key] = (this.keys.when[key] ?? 0) - this.nowTicks(now);
    if (!this.journaling) return;
    this.keys.written[key] = now;
    this.journal.push(now, key, token, this.keys.when[key] ?? 0);
  }

  /** A replica takes over with what its master had done by `until`. Expiry is absolute, and by the replica's own clock. */
  takeOver(master: SimNode, until: number, now: TrueTime): void {
    this.down = false;
    this.scripts.lose();
    this.restore(master.journal, until);
    this.counter.restore(until, true, now, master.counter);
    this.dropAllExpired(now);
  }

  /** Takes on the state that the changes until then lead to. From now on, nothing else has happened. */
  private restore(from: Journal, until: number): void {
    const { journal } = this;
    journal.take(from, until);
    for (let i = 0; i < journal.length; i++) this.keys.reserve(journal.key[i] ?? 0);
    for (let key = 0; key < this.keys.count; key++) {
      const last = journal.lastOf(key);
      const token = last < 0 ? NO_TOKEN : (journal.token[last] ?? NO_TOKEN);
      if (token !== (this.keys.tokens[key] ?? NO_TOKEN)) this.forget(key);
      if (token === NO_TOKEN) continue;
      this.keys.endAt(key, journal.when[last] ?? 0);
      this.keys.written[key] = journal.at[last] ?? trueTime(0);
      if (this.keys.tokens[key] !== token) {
        this.keys.tokens[key] = token;
        this.context.keySet(this, key, token, this.goneAt(key));
      }
    }
  }
}
