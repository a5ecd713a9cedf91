import type { Answer, Command } from '../../core/index.js';
import { nodeName, type SimLock, type TrueTime, type WatchedWorld, type World } from '../../sim/index.js';
import type { LibraryCommand } from '../addressed.js';
import { type ClientViolation, failure } from './failure.js';
import type { Quiet } from './quiet.js';

/** Clocks of whole milliseconds may be off by one. */
const ROUNDING_US = 1_000;

const NO_EXPIRY = -1;
const NOBODY = 0;

/** What a key is on a node. */
interface Stored {
  readonly key: number;
  readonly token: number;
  readonly ttlMs: number;
}

/** A TTL that a key had been given at this time or later, and so until when it lasts at least, µs of true time. */
interface Certain {
  readonly token: number;
  readonly fromUs: number;
  readonly untilUs: number;
}

/**
 * Until when a lock can be relied on: a key may have been set as soon as its command was sent, and then it is gone a TTL
 * later. A command that another has overtaken was not carried out before that one was sent. Who believes for longer than a majority of its keys last for certain, relies on messages that were slow.
 */
export class Margin {
  readonly violations: ClientViolation[] = [];
  /** By lock, then by key, then by node: what is certain of its key, with this token. */
  private readonly certain = new Map<SimLock, (Certain | undefined)[][]>();
  private readonly told = new Set<SimLock>();
  private before: readonly Stored[] = [];
  private readonly world: WatchedWorld;
  private readonly nodes: World['nodes'];
  private readonly quiet: Quiet;

  constructor(world: WatchedWorld, nodes: World['nodes'], quiet: Quiet) {
    this.world = world;
    this.nodes = nodes;
    this.quiet = quiet;
  }

  /** A node is about to carry out a command. */
  executes(node: number, command: Command, now: TrueTime): void {
    this.before = this.keysOn(node, command, now);
  }

  /** It has done so: a key that has another TTL now, has it as if it were there since the command was sent. */
  executed(node: number, command: Command, answer: Answer, now: TrueTime): void {
    const { before } = this;
    const isExtended = command.operation === 'extend' && answer === 'yes';
    const { sentUs = now } = command as Partial<LibraryCommand>;
    const lock = this.world.ownerOf(command.token as number);
    if (lock === null) return;
    for (const { key, token, ttlMs } of this.keysOn(node, command, now)) {
      const was = before.find((it) => it.key === key);
      const isOwn = token === (command.token as number);
      // Right behind its SET, an extension changes nothing that is to be seen.
      if (was?.token === token && was.ttlMs === ttlMs && !(isOwn && isExtended)) continue;
      if (!isOwn) {
        if (was?.token === token && was.ttlMs !== NO_EXPIRY) this.tellForeign(lock, token, node, now);
        continue;
      }
      const ends = this.endsOf(lock, key);
      const fromUs = Math.max(sentUs, ends[node]?.fromUs ?? 0);
      const untilUs = ttlMs === NO_EXPIRY ? Number.POSITIVE_INFINITY : fromUs + ttlMs * 1000;
      // Of a command that changed nothing, what was certain before still is.
      const known = ends[node];
      const isKept = was?.token === token && was.ttlMs === ttlMs && known?.token === token && known.untilUs > untilUs;
      if (!isKept) ends[node] = { token, fromUs, untilUs };
    }
  }

  private endsOf(lock: SimLock, key: number): (Certain | undefined)[] {
    let ofLock = this.certain.get(lock);
    if (ofLock === undefined) {
      ofLock = [];
      this.certain.set(lock, ofLock);
    }
    const ends = ofLock[key] ?? [];
    ofLock[key] = ends;
    return ends;
  }

  /** A client has given a new TTL to a key that is not its own. */
  private tellForeign(lock: SimLock, token: number, node: number, now: TrueTime): void {
    const owner = this.world.ownerOf(token);
    if (owner === null || owner === lock || this.told.has(lock)) return;
    this.told.add(lock);
    const detail = `${lock.client.name} extends the key of ${owner.client.name} on ${nodeName(node)} as if it were its own`;
    this.violations.push({ ...failure('state', [lock, owner], now, detail), property: 'owner-only-release' });
  }

  /** The keys of a command's lock on a node: their tokens, and what is left of their TTLs, ms. */
  private keysOn(node: number, { token }: Command, now: TrueTime): Stored[] {
    const at = this.nodes[node];
    const stored: Stored[] = [];
    if (at === undefined) return stored;
    for (const key of this.world.ownerOf(token as number)?.keys ?? []) {
      const its = at.stored(key, now);
      if (its !== NOBODY) stored.push({ key, token: its, ttlMs: at.ttlMs(key, now) });
    }
    return stored;
  }

  /** Until when a majority of the keys lasts; infinity where that many were not seen. */
  private certainUntil(lock: SimLock): number {
    const { majority } = lock.list;
    const ofLock = this.certain.get(lock);
    let until = Number.POSITIVE_INFINITY;
    for (const key of lock.keys) {
      const ofKey: number[] = [];
      for (const it of ofLock?.[key] ?? []) if (it?.token === lock.token) ofKey.push(it.untilUs);
      ofKey.sort((a, b) => b - a);
      until = Math.min(until, ofKey[majority - 1] ?? Number.POSITIVE_INFINITY);
    }
    return until;
  }

  /** A lock says that it is held until then, or it was held up to then. */
  believes(lock: SimLock, untilUs: number, now: TrueTime): void {
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
