import type { Command } from '../../core/index.js';
import type { LockRun, TrueTime, WatchedWorld, World } from '../../sim/index.js';
import { type ClientViolation, failure } from './failure.js';
import type { Quiet } from './quiet.js';

/** Clocks of whole milliseconds may be off by one. */
const ROUNDING_US = 1_000;

const NO_EXPIRY = -1;

/**
 * Until when a lock can be relied on: a key may have been set as soon as its command was sent, and then it is gone a TTL
 * later. Who believes for longer than a majority of its keys last for certain, relies on messages that were slow.
 */
export class Margin {
  readonly violations: ClientViolation[] = [];
  /** By lock, then by node and key: until when a key lasts for certain, µs of true time, with this token. */
  private readonly certain = new Map<LockRun, Map<string, { readonly token: number; readonly untilUs: number }>>();
  private readonly told = new Set<LockRun>();
  private readonly sentAt = new WeakMap<Command, TrueTime>();
  private before: ReadonlyMap<number, number> = new Map();
  private readonly world: WatchedWorld;
  private readonly nodes: World['nodes'];
  private readonly quiet: Quiet;

  constructor(world: WatchedWorld, nodes: World['nodes'], quiet: Quiet) {
    this.world = world;
    this.nodes = nodes;
    this.quiet = quiet;
  }

  sent(command: Command, now: TrueTime): void {
    this.sentAt.set(command, now);
  }

  /** A node is about to carry out a command. */
  executes(node: number, command: Command, now: TrueTime): void {
    this.before = this.ttlsOf(node, command, now);
  }

  /** It has done so: a key that has another TTL now, has it as if it were there since the command was sent. */
  executed(node: number, command: Command, now: TrueTime): void {
    const { before } = this;
    const sentUs = this.sentAt.get(command) ?? now;
    const token = command.token as number;
    const lock = this.world.ownerOf(token);
    if (lock === null) return;
    for (const [key, ttlMs] of this.ttlsOf(node, command, now)) {
      if (ttlMs === before.get(key)) continue;
      const untilUs = ttlMs === NO_EXPIRY ? Number.POSITIVE_INFINITY : sentUs + ttlMs * 1000;
      const ends = this.certain.get(lock) ?? new Map();
      ends.set(`${node} ${key}`, { token, untilUs });
      this.certain.set(lock, ends);
    }
  }

  /** What is left of the TTLs of the keys that have the token of a command, ms. */
  private ttlsOf(node: number, { token: its }: Command, now: TrueTime): Map<number, number> {
    const token = its as number;
    const [at, keys] = [this.nodes[node], this.world.ownerOf(token)?.keys ?? []];
    const ttls = new Map<number, number>();
    for (const key of keys) if (at?.stored(key, now) === token) ttls.set(key, at.ttlMs(key, now));
    return ttls;
  }

  /** Until when a majority of the keys lasts; infinity where that many were not seen. */
  private certainUntil(lock: LockRun): number {
    const { majority } = lock.list;
    const ends = [...(this.certain.get(lock) ?? [])].filter(([, { token }]) => token === lock.token);
    let until = Number.POSITIVE_INFINITY;
    for (const key of lock.keys) {
      const ofKey = ends.filter(([at]) => at.endsWith(` ${key}`)).map(([, { untilUs }]) => untilUs);
      ofKey.sort((a, b) => b - a);
      until = Math.min(until, ofKey[majority - 1] ?? Number.POSITIVE_INFINITY);
    }
    return until;
  }

  /** A lock says that it is held until then, or it was held up to then. */
  believes(lock: LockRun, untilUs: number, now: TrueTime): void {
    if (this.quiet.clocksChanged || this.told.has(lock)) return;
    const certainUs = this.certainUntil(lock);
    // Who stood still could not say so.
    if (untilUs - certainUs < ROUNDING_US || lock.client.pausedUntil >= certainUs) return;
    this.told.add(lock);
    const { name } = lock.client;
    const detail = `${name} takes its lock for held until ${ms(untilUs)}, but can rely on a majority of its keys until ${ms(certainUs)} only`;
    this.violations.push({ ...failure('margin', [lock], now, detail), untilUs: Math.max(now, untilUs) });
  }
}

function ms(us: number): string {
  return `${Math.floor(us) / 1000} ms`;
}
