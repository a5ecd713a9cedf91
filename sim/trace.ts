import type { LocalTime } from '../core/index.js';
import { RollingHash } from './hash.js';
import type { TrueTime } from './time.js';

/** What can happen in a run, with the codes that go into the hash. */
export const Kind = {
  call: 0,
  send: 1,
  lost: 2,
  execute: 3,
  reply: 4,
  dropped: 5,
  timer: 6,
  claim: 7,
  'acquire-failed': 8,
  extended: 9,
  'not-extended': 10,
  expired: 11,
  'release-call': 12,
  released: 13,
  'key-set': 14,
  'key-lengthened': 15,
  'key-gone': 16,
  crash: 17,
  restart: 18,
  failover: 19,
  'client-crash': 20,
  pause: 21,
  'clock-step': 22,
  'clock-drift': 23,
  partition: 24,
  'write-skipped': 25,
  'write-sent': 26,
  'write-arrived': 27,
  'data-loss': 28,
  'error-replies': 29,
  'counter-set': 30,
  suspend: 31,
  reconfigure: 32,
  'write-refused': 33,
  'no-script': 34,
  'write-checked': 35,
} as const;

/** What an event of a trace is. */
export type TraceKind = keyof typeof Kind;

const KIND_NAMES = Object.keys(Kind) as readonly TraceKind[];

/** One thing that happened. */
export interface TraceEvent {
  readonly seq: number;
  readonly kind: TraceKind;
  readonly atUs: number;
  /** The clock of the process it happened to, µs. */
  readonly localUs: number;
  readonly process: string;
  /** Sequence number of the event that led to this one, or -1. */
  readonly cause: number;
  readonly detail: Detail;
}

/** Who an event happened to: clients count from 0, nodes from here. */
export const NODE_BASE = 1024;

/** What else there is to say about an event, by kind: small integers and short strings. */
export type Detail = Readonly<Record<string, string | number | readonly string[]>>;

const NO_DETAIL: Detail = {};

/** Takes in what happens: always into the hash, and into a list if somebody wants to look at it. */
export class Trace {
  events: TraceEvent[] = [];
  private readonly hash = new RollingHash();
  private count = 0;
  keeping: boolean;

  constructor(keeping: boolean) {
    this.keeping = keeping;
  }

  /** Resets; what was handed out before stays as it is. */
  reset(keeping: boolean): void {
    if (this.events.length > 0) this.events = [];
    this.hash.reset();
    this.count = 0;
    this.keeping = keeping;
  }

  /** Mixes one event into the hash and returns its sequence number. `a` and `b` are what matters about it. */
  note(code: number, process: number, at: TrueTime, a: number, b: number): number {
    this.hash.addEvent(at, code * 4096 + process, a, b);
    return this.count++;
  }

  /** Gives out a sequence number for an event that needs no place in the hash. */
  pass(): number {
    return this.count++;
  }

  /** Keeps the event just noted, in words. */
  keep(code: number, process: string, at: TrueTime, local: LocalTime, cause: number): void {
    const kind = KIND_NAMES[code] ?? 'call';
    this.events.push({ seq: this.count - 1, kind, atUs: at, localUs: local, process, cause, detail: NO_DETAIL });
  }

  /** Says more about the event just kept. */
  detail(detail: Detail): void {
    const last = this.events.pop();
    if (last !== undefined) this.events.push({ ...last, detail });
  }

  /** Says one thing more about the event just kept, of which something was said. */
  add(name: string, value: number): void {
    const detail: Record<string, unknown> = this.events[this.events.length - 1]?.detail ?? {};
    detail[name] = value;
  }

  /** A short digest, for hashing many runs together. */
  value(): number {
    return this.hash.value();
  }

  digest(): string {
    return this.hash.digest();
  }
}
