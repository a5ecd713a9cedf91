import { createHash } from 'node:crypto';
import {
  copyState,
  type DraftState,
  type Effect,
  type FencingToken,
  HEALING,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  type LockState,
  type Outcome,
} from '../../core/index.js';
import { isRecord, show } from './arguments.js';
import type { Clock } from './clock.js';
import { configError } from './errors.js';

/** Options of {@link Redlock.record}. */
export interface RecordingOptions {
  /** Name of this process, unique in the history. */
  readonly client: string;
  /** Whether to record steps too, at several times the time and memory of the history. Default `false`. */
  readonly steps?: boolean;
  /** Maximum number of events, effects and lines of the history, of all locks together. Default 50 000. */
  readonly maxEntries?: number;
  /**
   * Time in whole µs, never decreasing. Default: the monotonic clock, which all processes of one machine share. For several machines,
   * or a machine that is suspended, pass a shared clock, such as
   * `() => Math.round((performance.timeOrigin + performance.now()) * 1000)` under NTP. It is called during lock operations and must
   * not throw.
   */
  readonly nowUs?: () => number;
  /** Largest difference from the clocks of the other processes, µs. Default 1, for rounding. */
  readonly errorUs?: number;
}

/** A recording of locks, in memory. It returns no tokens: each is replaced by a part of its SHA-256. */
export interface Recording {
  /** The history: JSON lines for `lockstep verify`, oldest lock first. Histories of several processes may be joined. */
  history(): string;
  /**
   * A JSON line for each lock, with the events of its state machine and their effects; nothing without the option `steps`.
   */
  steps(): string;
  /** Number of locks that were dropped to make room. They are in neither. */
  readonly dropped: number;
  /** Records no further locks. Recording of earlier locks continues. */
  stop(): void;
}

/** What happens to a lock, as it is kept. */
interface Line {
  readonly type: string;
  readonly atUs: number;
  readonly ttlMs?: number;
  readonly validUs?: number;
  readonly fencingToken?: FencingToken;
}

const DEFAULT_MAX_ENTRIES = 50_000;
const FEWEST_ENTRIES = 1_000;
/** No lock takes more than this part, however long it waits or is held. */
const SHARE = 8;
const HASH_DIGITS = 16;

function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** What is kept of one lock. */
export class LockLog {
  readonly number: number;
  readonly resources: readonly string[];
  readonly policy: LockPolicy;
  /** The state that its entries begin with; `null` for that before an acquisition. */
  from: LockState | null = null;
  /** Events, each followed by the effects that were carried out for it. */
  entries: (LockEvent | Effect)[] = [];
  lines: Line[] = [];
  readonly #recording: LockRecording;
  #isDropped = false;
  #isByTimer = false;

  constructor(
    recording: LockRecording,
    number: number,
    lock: { readonly resources: readonly string[]; readonly policy: LockPolicy },
  ) {
    this.#recording = recording;
    this.number = number;
    this.resources = lock.resources;
    this.policy = lock.policy;
  }

  get size(): number {
    return this.entries.length + this.lines.length;
  }

  /** Notes what the lock in this state is about to be handed. */
  onEvent(state: DraftState, event: LockEvent): void {
    if (this.#isDropped) return;
    const { phase } = state;
    if (this.size > this.#recording.maxOfLock) this.#shorten(state);
    this.#isByTimer = event.type === 'timer';
    if (this.#recording.hasSteps) this.#keep(event);
    if (event.type === 'acquire' || event.type === 'extend') this.#note({ type: event.type, ttlMs: event.ttlMs });
    else if (event.type === 'release' && (phase === 'held' || phase === 'lost')) this.#note({ type: 'release' });
  }

  /** Notes what is about to be carried out, after the step. */
  onEffect(state: DraftState, effect: Effect): void {
    if (this.#isDropped) return;
    if (this.#recording.hasSteps) this.#keep(effect);
    if (effect.type === 'report') this.#onOutcome(state, effect.outcome);
    else if (effect.type === 'send' && effect.command.operation === 'extend' && this.#isByTimer)
      this.#note({ type: 'extend', ttlMs: state.extension.ttlMs });
  }

  /** Forgets everything, for good. */
  drop(): void {
    this.#isDropped = true;
    this.entries = [];
    this.lines = [];
  }

  #onOutcome(state: DraftState, outcome: Outcome): void {
    switch (outcome.type) {
      case 'acquired':
        this.#claim('acquired', outcome.deadline, outcome.fence ?? undefined);
        break;
      case 'extended':
        this.#claim('extended', outcome.deadline, undefined);
        break;
      case 'not-extended':
        this.#note({ type: 'not-extended' }, state.phase === 'held' ? state.hold.deadline : null);
        break;
      case 'failed':
      case 'released':
        this.#note({ type: outcome.type });
        this.#recording.onEnd(this);
        break;
      case 'lost':
        this.#recording.onEnd(this);
    }
  }

  /** One that is over before it can be noted had something left when it was granted, and nobody knows how much. */
  #claim(type: 'acquired' | 'extended', deadline: LocalTime, fencingToken: FencingToken | undefined): void {
    const line = this.#recording.stamped({ type }, deadline);
    if (line.validUs === 0) this.#push({ type: 'unknown', atUs: line.atUs });
    else this.#push(fencingToken === undefined ? line : { ...line, fencingToken });
  }

  #note(line: Omit<Line, 'atUs'>, deadline?: LocalTime | null): void {
    this.#push(this.#recording.stamped(line, deadline));
  }

  #push(line: Line): void {
    this.lines.push(line);
    this.#recording.grow(1);
  }

  #keep(entry: LockEvent | Effect): void {
    this.entries.push(entry);
    this.#recording.grow(1);
  }

  /**
   * Goes on from the state that the lock has now. In the history, one that was extended for long is then acquired later than it
   * was, so that it holds nothing that it did not hold.
   */
  #shorten(state: DraftState): void {
    const { phase, hold, extension } = state;
    if (phase !== 'waiting' && (phase !== 'held' || extension.isOpen)) return;
    const { size, lines } = this;
    const [called] = lines;
    if (called === undefined) return;
    this.from = copyState(state);
    this.entries = [];
    this.lines = [{ ...called, ttlMs: Math.max(called.ttlMs ?? 0, extension.ttlMs) }];
    this.#recording.grow(1 - size);
    if (phase === 'held') this.#claim('acquired', hold.deadline, lines[1]?.fencingToken);
  }
}

/** The locks of a process, as they are kept. */
export class LockRecording implements Recording {
  readonly maxOfLock: number;
  readonly hasSteps: boolean;
  readonly #options: Required<RecordingOptions>;
  readonly #clock: Clock;
  readonly #open = new Set<LockLog>();
  /** Those that have ended, from `#oldest` on: a set would be searched past all that it has lost. */
  #ended: LockLog[] = [];
  #oldest = 0;
  #size = 0;
  #begun = 0;
  #dropped = 0;
  #isStopped = false;

  /** @throws LockError `ERR_LOCK_CONFIG` for options that are wrong. */
  constructor(options: RecordingOptions, clock: Clock) {
    this.#options = checkOptions(options);
    this.#clock = clock;
    this.hasSteps = this.#options.steps;
    this.maxOfLock = Math.floor(this.#options.maxEntries / SHARE);
  }

  /** The log of a lock that is about to be acquired, if there is one. */
  begin(lock: ConstructorParameters<typeof LockLog>[2]): LockLog | null {
    if (this.#isStopped) return null;
    const log = new LockLog(this, this.#begun++, lock);
    this.#open.add(log);
    return log;
  }

  stop(): void {
    this.#isStopped = true;
  }

  get dropped(): number {
    return this.#dropped;
  }

  history(): string {
    const { client, errorUs } = this.#options;
    return this.#text(({ lines, number, resources }) =>
      lines.map(({ type, atUs, ...rest }) => {
        const asked = type === 'acquire' ? { client, resources } : {};
        return { type, lock: `${client}/${number}`, atUs, errorUs, ...asked, ...rest };
      }),
    );
  }

  steps(): string {
    const { client } = this.#options;
    if (!this.hasSteps) return '';
    return this.#text(({ number, resources, policy, from, entries }) => {
      const rules = policy.rules === HEALING ? 'healing' : 'sound';
      const { settings } = policy;
      return [{ schema: 'lockstep.steps/1', lock: `${client}/${number}`, resources, settings, rules, from, entries }];
    });
  }

  #text(recordsOf: (log: LockLog) => readonly object[]): string {
    const logs = [...this.#ended.slice(this.#oldest), ...this.#open]
      .filter(({ size }) => size > 0)
      .sort((a, b) => a.number - b.number);
    const hidden = new Map<string, string>();
    const hide = (key: string, value: unknown): unknown => {
      // The attempt of a fencing token is the token.
      if (typeof value !== 'string' || (key !== 'token' && key !== 'attempt')) return value;
      const known = hidden.get(value) ?? createHash('sha256').update(value).digest('hex').slice(0, HASH_DIGITS);
      hidden.set(value, known);
      return known;
    };
    return logs
      .flatMap(recordsOf)
      .map((record) => `${JSON.stringify(record, hide)}\n`)
      .join('');
  }

  /** A line with the time, and what is left until `deadline`: read after it, so that it is never noted as longer. */
  stamped(line: Omit<Line, 'atUs'>, deadline?: LocalTime | null): Line {
    const atUs = this.#options.nowUs();
    if (deadline === undefined) return { ...line, atUs };
    return { ...line, atUs, validUs: deadline === null ? 0 : Math.max(0, deadline - this.#clock.now()) };
  }

  onEnd(log: LockLog): void {
    if (this.#open.delete(log)) this.#ended.push(log);
  }

  /** Something was kept, or so much less is. Whole locks make room, so that what is left of the history stays true. */
  grow(by: number): void {
    this.#size += by;
    while (this.#size > this.#options.maxEntries) {
      const oldest = this.#takeOldest();
      if (oldest === undefined) return;
      this.#size -= oldest.size;
      this.#dropped++;
      oldest.drop();
    }
  }

  #takeOldest(): LockLog | undefined {
    const ended = this.#ended[this.#oldest];
    if (ended !== undefined) {
      this.#oldest++;
      if (2 * this.#oldest > this.#ended.length) {
        this.#ended = this.#ended.slice(this.#oldest);
        this.#oldest = 0;
      }
      return ended;
    }
    const [open] = this.#open;
    if (open !== undefined) this.#open.delete(open);
    return open;
  }
}

function checkOptions(options: RecordingOptions): Required<RecordingOptions> {
  if (!isRecord(options) || typeof options.client !== 'string' || options.client === '')
    throw configError('record needs { client }, a name that no other process of the history has.');
  const { client, steps = false, maxEntries = DEFAULT_MAX_ENTRIES, nowUs = monotonicUs, errorUs = 1 } = options;
  if (typeof steps !== 'boolean') throw configError(`steps is ${show(steps)}, but it must be true or false.`);
  if (!Number.isSafeInteger(maxEntries) || maxEntries < FEWEST_ENTRIES)
    throw configError(`maxEntries is ${show(maxEntries)}, but it must be a whole number from ${FEWEST_ENTRIES}.`);
  if (typeof nowUs !== 'function') throw configError(`nowUs is ${show(nowUs)}, but it must be a function.`);
  if (!Number.isSafeInteger(errorUs) || errorUs < 0)
    throw configError(`errorUs is ${show(errorUs)}, but it must be a whole number of µs from 0.`);
  return { client, steps, maxEntries, nowUs, errorUs };
}
