import { type Command, has, members, NO_NODES, type NodeSet, union } from '../../core/index.js';
import type { ProcessName } from '../../scenarios/index.js';
import type { SimLock, TrueTime, WatchedWorld } from '../../sim/index.js';
import { printable } from '../../text/printable.js';
import { LockOverError } from '../lock-under-test.js';
import { type ClientViolation, failure } from './failure.js';
import { type Keys, sharesResource } from './keys.js';
import type { Quiet } from './quiet.js';

/** One acquisition, from its call on. */
interface Asked {
  readonly lock: SimLock;
  readonly sinceUs: number;
  /** The nodes that its process could send something to at once. */
  readonly reached: NodeSet;
  /** Its call to acquire has returned. */
  hasReturned: boolean;
  /** Nobody else has asked for the resource, or has had a key of it, from then on. */
  isAlone: boolean;
  /** When `release` was called, while a majority had its keys and it was held. */
  releasedUs: number | null;
}

/** Knows who is connected to whom. */
export interface Ways {
  /** The nodes that a process, by its number, could send something to at once: all, unless it opens connections itself. */
  reachedBy(client: number): NodeSet;
}

/** A client that asks by itself has a lock that long after its call, µs. */
const PATIENCE_US = 15_000_000;

/** A client that has sent nothing for this long waits for something, and asks no more, µs. */
const ASKS_US = 5_000_000;

/** Answers take less time than this, if there are any, µs. */
const LONG_US = 1_000_000;

/** What follows from an answer comes sooner than this, µs. */
const AT_ONCE_US = 1_000;

/** With less time than this, ms, a lock need not get by without a minority that keeps it waiting. */
const LEAST_TTL_MS = 5_000;

const LONGEST_REASON = 120;

/** Whether who asks for a lock that nobody has gets it, and whether what is called returns as it should. */
export class Calls {
  readonly violations: ClientViolation[] = [];
  /** A process has asked for a resource again, while an earlier lock of it for that was not over. */
  overlap = false;
  /** A lock was given not as an answer came, but while a node owed one for long: its client bounds how long it waits. */
  bounds = false;
  private readonly heardAt = new Map<ProcessName, TrueTime>();
  private readonly unanswered = new Map<
    Command,
    { readonly client: ProcessName; readonly to: NodeSet; readonly sentUs: number }
  >();
  private readonly sentAt = new Map<ProcessName, TrueTime>();
  private readonly asked = new Map<SimLock, Asked>();
  /** Those of them that are not over. */
  private readonly open = new Set<Asked>();
  private readonly world: WatchedWorld;
  private readonly quiet: Quiet;
  private readonly keys: Keys;
  private readonly ways: Ways;
  /** By process: when it noticed last that its connection to a node was broken, µs. */
  private readonly brokenAt = new Map<ProcessName, number[]>();

  constructor(world: WatchedWorld, quiet: Quiet, keys: Keys, ways: Ways) {
    this.world = world;
    this.quiet = quiet;
    this.keys = keys;
    this.ways = ways;
  }

  /** `acquire` is called. */
  called(lock: SimLock, now: TrueTime): void {
    let isAlone = !this.keys.isTaken(lock, now);
    for (const other of this.open) {
      if (other.lock.gone || !sharesResource(other.lock, lock)) continue;
      isAlone = false;
      this.joined(other, now);
      this.overlap ||= other.lock.client === lock.client;
    }
    const reached = this.ways.reachedBy(lock.client.index);
    const it: Asked = { lock, sinceUs: now, reached, hasReturned: false, isAlone, releasedUs: null };
    this.asked.set(lock, it);
    this.open.add(it);
  }

  connectionBroke(client: ProcessName, node: number, now: TrueTime): void {
    const nodes = this.brokenAt.get(client) ?? [];
    nodes[node] = now;
    this.brokenAt.set(client, nodes);
  }

  /**
   * Whether a process has been connected to each node in order since its call. Connections that clients open break without
   * a fault, and come back when their libraries like.
   */
  private wasConnected({ lock, sinceUs, reached }: Asked, now: TrueTime): boolean {
    const { index, name } = lock.client;
    const stillReached = this.ways.reachedBy(index);
    const brokenAt = this.brokenAt.get(name) ?? [];
    return lock.list.nodes.every(
      (node) =>
        !this.quiet.isInOrder(node, now) ||
        (has(reached, node) && has(stillReached, node) && (brokenAt[node] ?? -1) < sinceUs),
    );
  }

  /** Somebody's key has come to a node: who asks for the same resource is not alone. */
  keySet(token: number, now: TrueTime): void {
    const owner = this.world.ownerOf(token);
    if (owner === null) return;
    for (const it of this.open)
      if (!it.hasReturned && it.lock !== owner && sharesResource(owner, it.lock)) this.joined(it, now);
  }

  /** Another client asks, too. By then the first one may have asked alone for too long. */
  private joined(it: Asked, now: TrueTime): void {
    const { lock, hasReturned } = it;
    const asks = now - (this.sentAt.get(lock.client.name) ?? 0) < ASKS_US;
    if (asks && !hasReturned && !lock.gone) this.waited(it, now);
    it.isAlone = false;
  }

  /** Tells of a call that has asked for too long for a lock that it had to get. */
  private waited(it: Asked, now: TrueTime): void {
    const { lock, sinceUs } = it;
    if (now - sinceUs < PATIENCE_US || !this.hadToGetIt(it, now)) return;
    const forS = Math.floor((now - sinceUs) / 1_000_000);
    const detail = `${lock.client.name} has asked for ${forS} s for ${this.freeLock(lock, now)}`;
    this.tell('unavailable', lock, now, detail);
  }

  sent(lock: SimLock, to: NodeSet, command: Command, now: TrueTime): void {
    this.unanswered.set(command, { client: lock.client.name, to, sentUs: now });
    this.sentAt.set(lock.client.name, now);
  }

  /** A process hears the answer to a command. */
  heard(command: Command, now: TrueTime): void {
    const client = this.unanswered.get(command)?.client;
    if (client !== undefined) this.heardAt.set(client, now);
    this.unanswered.delete(command);
  }

  /** A process dies, and waits for nothing any more. */
  dies(name: ProcessName): void {
    for (const [command, { client }] of this.unanswered) if (client === name) this.unanswered.delete(command);
  }

  /** The nodes that have owed a process an answer for long. */
  waitsFor(client: ProcessName, now: TrueTime): number[] {
    let nodes = NO_NODES;
    for (const { client: sender, to, sentUs } of this.unanswered.values())
      if (sender === client && (now - sentUs > LONG_US || this.isOut(to, now))) nodes = union(nodes, to);
    return [...members(nodes)];
  }

  private isOut(nodes: NodeSet, now: TrueTime): boolean {
    return members(nodes).some((node) => !this.quiet.isInOrder(node, now));
  }

  acquired(lock: SimLock, now: TrueTime): void {
    const it = this.asked.get(lock);
    if (it === undefined || it.hasReturned) return;
    it.hasReturned = true;
    const { name } = lock.client;
    const isDecided = now - (this.heardAt.get(name) ?? 0) < AT_ONCE_US;
    this.bounds ||= !isDecided && this.waitsFor(name, now).length > 0;
  }

  /** `acquire` returns without a lock; `error` is what it was rejected with, if it was. */
  refused(lock: SimLock, error: unknown, now: TrueTime): void {
    const it = this.asked.get(lock);
    if (it === undefined) return;
    if (!it.hasReturned && this.hadToGetIt(it, now)) {
      const what = error === undefined ? 'is not given it' : `is rejected with ${reasonIn(error)}`;
      this.tell('unavailable', lock, now, `${lock.client.name} asks for ${this.freeLock(lock, now)}, and ${what}`);
    }
    it.hasReturned = true;
    this.open.delete(it);
  }

  /** Whether this is a call for a free lock in which nothing was in the way. */
  private hadToGetIt(it: Asked, now: TrueTime): boolean {
    const { quiet } = this;
    const { lock, sinceUs, isAlone } = it;
    if (!isAlone || !quiet.holdsSince(sinceUs, now) || !this.wasConnected(it, now)) return false;
    const { list, plan } = lock;
    const inOrder = quiet.nodesInOrder(now);
    if (inOrder < list.majority) return false;
    return inOrder === list.nodes.length || plan.ttlMs >= LEAST_TTL_MS;
  }

  private freeLock({ plan, list }: SimLock, now: TrueTime): string {
    const [resource = '?'] = plan.resources;
    return `${resource}, which nobody has, with ${this.quiet.nodesInOrder(now)} of ${list.nodes.length} nodes in order`;
  }

  /** `release` is called. */
  releasing(lock: SimLock, now: TrueTime): void {
    const it = this.asked.get(lock);
    if (it !== undefined && lock.believes(now) && this.keys.nodesWith(lock) >= lock.list.majority) it.releasedUs = now;
  }

  /** `release` returns. */
  released(lock: SimLock, error: unknown, now: TrueTime): void {
    const it = this.asked.get(lock);
    if (it === undefined) return;
    this.open.delete(it);
    const { quiet } = this;
    const inOrder = quiet.nodesInOrder(now) === lock.list.nodes.length && quiet.holdsSince(it.sinceUs, now);
    if (error === undefined || error instanceof LockOverError) return;
    if (it.releasedUs === null || !inOrder || !this.wasConnected(it, now)) return;
    const detail = `release of ${lock.client.name} is rejected with ${reasonIn(error)}, though it holds the lock and all nodes are in order`;
    this.tell('rejection', lock, now, detail);
  }

  /** @param hanging - Processes that wait, and do nothing. */
  finished(hanging: readonly ProcessName[], now: TrueTime): void {
    for (const it of this.asked.values()) {
      const { lock, hasReturned } = it;
      if (!hasReturned && !lock.gone && !hanging.includes(lock.client.name)) this.waited(it, now);
    }
  }

  private tell(kind: 'unavailable' | 'rejection', lock: SimLock, now: TrueTime, detail: string): void {
    this.violations.push(failure(kind, [lock], now, detail));
  }
}

function reasonIn(error: unknown): string {
  const words = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return printable(words, LONGEST_REASON);
}
