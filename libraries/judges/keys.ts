import type { Answer, Command, NodeSet } from '../../core/index.js';
import { members, NO_NODES, oneNode, size, union } from '../../core/index.js';
import type { ProcessName } from '../../scenarios/index.js';
import {
  type KeyRemovalCause,
  nodeName,
  type SimLock,
  type TrueTime,
  type WatchedWorld,
  type World,
} from '../../sim/index.js';
import { type ClientViolation, failure } from './failure.js';
import type { Quiet } from './quiet.js';

/** A key on a node. */
interface Kept {
  readonly token: number;
  readonly sinceUs: number;
  /** An extension set it. */
  readonly byExtension: boolean;
}

/** What was heard and done about one token on one node; times in µs, -1 for never. */
interface Dealings {
  releaseSentUs: number;
  releaseDoneUs: number;
  /** Since the key was set. */
  isReleaseDone: boolean;
  /** A further SET was sent while the lock was held. */
  isSetAgain: boolean;
}

const NEVER = -1;
const NO_EXPIRY = -1;

/** A key that nobody has any use for may be there for so many TTLs. */
const MOST_TTLS = 3;

/**
 * Keys on nodes, and who has any use for them. A key that is left behind is told of when it expires, or the run is over: until
 * then its owner may still delete it.
 */
export class Keys {
  readonly violations: ClientViolation[] = [];
  /** Locks whose work has thrown. */
  readonly threw: Set<SimLock> = new Set();
  /** Locks whose release waited for longer than a client may wait for its answer. */
  readonly releasedLate: Set<SimLock> = new Set();
  private readonly kept: Map<number, Kept>[];
  /** By token, then by node. */
  private readonly dealings: ((Dealings | undefined)[] | undefined)[] = [];
  /** By token and by lock: since when nobody has any use for it. */
  private readonly overSince = new Map<number | SimLock, number>();
  private readonly told = new Set<SimLock>();
  private readonly world: WatchedWorld;
  private readonly quiet: Quiet;
  private executing: Command | null = null;

  constructor(world: WatchedWorld, quiet: Quiet) {
    this.world = world;
    this.quiet = quiet;
    this.kept = world.nodes.map(() => new Map());
  }

  // ——— what is sent, and what it does ———

  sent(lock: SimLock, to: NodeSet, { operation, token }: Command, now: TrueTime): void {
    for (const node of members(to)) {
      const dealings = this.dealingsOf(token as number, node);
      if (operation === 'release') dealings.releaseSentUs = now;
      else if (operation === 'acquire' && lock.believing) dealings.isSetAgain = true;
    }
  }

  /** Releases of a token for these nodes wait for a connection. */
  releaseKept(token: number, nodes: NodeSet, now: TrueTime): void {
    for (const node of members(nodes)) this.dealingsOf(token, node).releaseSentUs = now;
  }

  executes(command: Command): void {
    this.executing = command;
  }

  executed(node: number, { operation, token }: Command, answer: Answer, now: TrueTime): void {
    this.executing = null;
    if (operation !== 'release') return;
    if (answer !== 'error') this.released(token as number, node, now);
  }

  /**
   * A process hears soon that a node has refused its release: that is wrong by itself, or a script that the node does not
   * have, which a client that still waits sends whole.
   */
  refused(node: number, { token }: Command, now: TrueTime): void {
    const owner = this.world.ownerOf(token as number);
    const hasWaited = owner !== null && this.releasedLate.has(owner);
    if (!hasWaited && this.quiet.isInOrder(node, now)) this.released(token as number, node, now);
  }

  private released(token: number, node: number, now: TrueTime): void {
    const dealings = this.dealingsOf(token, node);
    dealings.releaseDoneUs = now;
    dealings.isReleaseDone = true;
  }

  private dealingsOf(token: number, node: number): Dealings {
    const ofToken = this.dealings[token] ?? [];
    const known = ofToken[node];
    if (known !== undefined) return known;
    this.dealings[token] = ofToken;
    const none = {
      releaseSentUs: NEVER,
      releaseDoneUs: NEVER,
      isReleaseDone: false,
      isSetAgain: false,
    };
    ofToken[node] = none;
    return none;
  }

  /** An attempt or an acquisition has failed, its lock was released, or its process has died. */
  over(what: number | SimLock, now: TrueTime): void {
    if (!this.overSince.has(what)) this.overSince.set(what, now);
  }

  /** A process dies, and nobody has any use for its locks. */
  dies(name: ProcessName): void {
    const locks = this.world.clients.find((it) => it.name === name)?.locks ?? [];
    // Those that it has not asked for yet are for the process that takes its place.
    for (const lock of locks) if (lock.life >= 0) this.over(lock, this.world.now);
  }

  keySet(node: number, key: number, token: number, now: TrueTime): void {
    const byExtension = this.executing?.operation === 'extend';
    this.kept[node]?.set(key, { token, sinceUs: now, byExtension });
    this.dealingsOf(token, node).isReleaseDone = false;
  }

  keyGone(node: number, key: number, cause: KeyRemovalCause, now: TrueTime): void {
    const kept = this.kept[node]?.get(key);
    this.kept[node]?.delete(key);
    if (kept !== undefined && cause === 'expired') this.leftBehind(node, key, kept, now);
  }

  // ——— what others ask ———

  /** How many nodes have a key of this lock with its token. */
  nodesWith(lock: SimLock): number {
    return this.kept.filter((keys) => [...keys.values()].some(({ token }) => token === lock.token)).length;
  }

  /**
   * The token of a lock that most nodes have: attempts of one acquisition may overlap, and what was sent last need not be
   * what it is given for. It is in use from now on, and no other one of its own.
   */
  tokenBehind(lock: SimLock, now: TrueTime): number {
    const nodesOf = new Map<number, NodeSet>();
    for (const [node, keys] of this.kept.entries()) {
      for (const { token } of keys.values())
        if (this.world.ownerOf(token) === lock)
          nodesOf.set(token, union(nodesOf.get(token) ?? NO_NODES, oneNode(node)));
    }
    let [token, nodes] = [lock.token, nodesOf.get(lock.token) ?? NO_NODES];
    for (const [other, of] of nodesOf) if (size(of) > size(nodes)) [token, nodes] = [other, of];
    if (token !== lock.token) this.over(lock.token, now);
    this.overSince.delete(token);
    return token;
  }

  /** Whether a node that is up has a key for the resource of a lock from somebody who may still have it there. */
  isTaken(lock: SimLock, now: TrueTime): boolean {
    return this.kept.some((keys, node) => {
      if (this.world.nodes[node]?.down) return false;
      return [...keys.values()].some(({ token, sinceUs, byExtension }) => {
        const owner = this.world.ownerOf(token);
        if (owner === null || owner === lock || !sharesResource(owner, lock)) return false;
        const overUs = this.uselessSince(token, owner, now);
        // A partition may have delayed the SET beyond the attempt, and delivered its DEL before it.
        const lastUs = byExtension ? overUs : Math.max(overUs, sinceUs);
        return now - lastUs <= 2 * longestTtlUs(owner);
      });
    });
  }

  private uselessSince(token: number, owner: SimLock, now: TrueTime): number {
    const since = this.overSince.get(owner) ?? now;
    return owner.token === token ? since : Math.min(since, this.overSince.get(token) ?? now);
  }

  // ——— what is found ———

  /** The lock that this is a key of; `null` for what a client stores besides, as a place in a queue. */
  private ownerOf(key: number, token: number): SimLock | null {
    const owner = this.world.ownerOf(token);
    return owner?.keys.includes(key) ? owner : null;
  }

  /** A key has run to its end: somebody ought to have deleted it if nobody had any use for it. */
  private leftBehind(node: number, key: number, { token, sinceUs, byExtension }: Kept, now: TrueTime): void {
    const owner = this.ownerOf(key, token);
    if (owner === null || owner.gone || this.told.has(owner)) return;
    const overUs = this.uselessSince(token, owner, now);
    if (overUs >= now) return;
    const dealings = this.dealingsOf(token, node);
    const why = whyLeft(dealings, byExtension);
    if (why === null) return;
    this.told.add(owner);
    const at = Math.max(overUs, sinceUs) as TrueTime;
    const after = this.threw.has(owner) ? ' after its work had thrown' : '';
    const detail = `${owner.client.name} leaves its key on ${nodeName(node)}, ${why}${after}`;
    const isLimit = this.kept.length === 1 && owner.state.phase === 'failed' && dealings.releaseSentUs === NEVER;
    this.violations.push({ ...failure('leak', [owner], at, detail), ...(isLimit ? { limit: 'key-stays' } : {}) });
  }

  finished(nodes: World['nodes'], now: TrueTime): void {
    for (const [node, keys] of this.kept.entries()) {
      const at = nodes[node];
      if (at === undefined || at.down) continue;
      for (const [key, kept] of keys) {
        const owner = this.ownerOf(key, kept.token);
        if (owner === null) continue;
        const tooLong = this.tooLong(owner, kept, at.ttlMs(key, now), now);
        if (tooLong === null) this.leftBehind(node, key, kept, now);
        else if (!this.told.has(owner)) {
          this.told.add(owner);
          const detail = `${nodeName(node)} has the key of ${owner.client.name} ${tooLong}`;
          this.violations.push(failure('lifetime', [owner], now, detail));
        }
      }
    }
  }

  /** Why a key is there for longer than any TTL allows, or `null`. */
  private tooLong(owner: SimLock, { token }: Kept, ttlMs: number, now: TrueTime): string | null {
    const sinceUs = this.uselessSince(token, owner, now);
    if (sinceUs >= now) return null;
    if (ttlMs === NO_EXPIRY)
      return `for ever: it has no TTL, and ${owner.gone ? 'the process has died' : 'its client has no use for it any more'}`;
    const afterUs = now - sinceUs;
    if (this.quiet.clocksChanged || ttlMs <= 0 || afterUs <= MOST_TTLS * longestTtlUs(owner)) return null;
    const wanted = `${longestTtlUs(owner) / 1000} ms were asked for`;
    return `${Math.floor(afterUs / 1000)} ms later still, and for another ${ttlMs} ms: ${wanted}`;
  }
}

function whyLeft(
  { releaseSentUs, releaseDoneUs, isReleaseDone, isSetAgain }: Dealings,
  byExtension: boolean,
): string | null {
  if (releaseSentUs === NEVER) return 'where it never sent a release';
  if (isReleaseDone) return 'which carried out its release, and has the key all the same';
  if (byExtension && releaseDoneUs !== NEVER) return 'where its extension set it after the release';
  if (isSetAgain && releaseDoneUs !== NEVER) return 'where it set the key again after the release';
  // A release that its own SET overtook does not count: redis.io asks for no second one, and the TTL ends the key.
  return null;
}

function longestTtlUs({ plan }: SimLock): number {
  return 1000 * Math.max(plan.ttlMs, ...plan.extensions.map(({ ttlMs }) => ttlMs));
}

/** Whether two locks are for one resource. */
export function sharesResource(a: SimLock, b: SimLock): boolean {
  return a.plan.resources.some((it) => b.plan.resources.includes(it));
}
