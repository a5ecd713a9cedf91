import type { SimNode } from '../../sim/index.js';
import { type Entry, KEEP, type Keyspace, NEVER, Stream, type Value } from '../../wire/index.js';
import { fromBytes, toBytes } from './bytes.js';
import { Collections, textsOf } from './collections.js';

/** What strings are called in the world: its keys and tokens are numbers. */
export interface Names {
  keyOf(key: string): number;
  /** @param by - The token of the client that stores it. @param key - Where it stores it. */
  tokenOf(value: string, by: number, key: number): number;
  valueOf(token: number): string;
}

/** A command at the node that carries it out. */
export interface Site {
  readonly node: SimNode;
  readonly now: SimNode['pausedUntil'];
  readonly names: Names;
  /** The token of the client that asks, or 0: who has deleted what. */
  readonly by: number;
}

const NO_TOKEN = 0;
const NO_KEY = -2;
const NO_EXPIRY = -1;

/** The keys of a simulated node, which a server works on: expiry, journal and what the world is told are the node's. */
export class NodeKeyspace implements Keyspace {
  /** Where commands are carried out now. */
  site: Site | null = null;
  /** Called at every change of a key, for those who watch it or wait for it. */
  listener: (key: string) => void = () => {};
  /** Whether a key was there when it was looked at last: nodes drop by themselves what has expired or is lost. */
  private readonly seen = new Map<string, boolean>();
  private readonly collections = new Collections();
  /** The numbers of keys in this run: some programs have a key for each instant. */
  private readonly indexes = new Map<string, number>();

  private get at(): Site {
    if (this.site === null) throw new Error('a key without a node');
    return this.site;
  }

  private get nowMs(): number {
    const { node, now } = this.at;
    return Math.floor(node.clock.read(now) / 1000);
  }

  private indexOf(key: string): number {
    const known = this.indexes.get(key);
    if (known !== undefined) return known;
    const index = this.at.names.keyOf(fromBytes(key));
    this.indexes.set(key, index);
    return index;
  }

  find(key: string): Entry | undefined {
    const { node, now, names } = this.at;
    const index = this.indexOf(key);
    const token = node.stored(index, now);
    if (token === NO_TOKEN) {
      if (this.seen.get(key) === true) this.note(key, false);
      return undefined;
    }
    this.seen.set(key, true);
    const left = node.ttlMs(index, now);
    const expiresAt = left === NO_EXPIRY ? NEVER : this.nowMs + left;
    const collection = this.collections.get(key, token, node.keepsHistory ? node.writtenAt(index) : now);
    return { value: collection ?? toBytes(names.valueOf(token)), expiresAt, form: 'auto' };
  }

  store(key: string, value: Entry['value'], expiresAt: number): void {
    // A stream may be empty; nothing else stays so.
    const begins = typeof value !== 'string' && !(value instanceof Stream) && textsOf(value).length === 0;
    if (begins) this.collections.begin(key, value);
    else this.storeAs(this.tokenFor(key, value, NO_TOKEN), key, value, expiresAt);
  }

  private storeAs(token: number, key: string, value: Value, expiresAt: number): void {
    const { node, now } = this.at;
    const ttlMs = expiresAt === KEEP ? 'keep' : expiresAt === NEVER ? null : expiresAt - this.nowMs;
    node.store(this.indexOf(key), token, ttlMs, now);
    this.collections.set(key, token, value, { atUs: now, keeps: node.keepsHistory });
    this.note(key, true);
  }

  /** A collection is told by the value of the client that writes it, if that is in it: a lock may be a field or a member. */
  private tokenFor(key: string, value: Value, before: number): number {
    const { node, names, by } = this.at;
    const index = this.indexOf(key);
    if (typeof value === 'string') return names.tokenOf(fromBytes(value), by, index);
    if (by !== NO_TOKEN && textsOf(value).includes(toBytes(names.valueOf(by)))) return by;
    return before === NO_TOKEN ? names.tokenOf(this.collections.nextName(node.index), by, index) : before;
  }

  private note(key: string, isThere: boolean): void {
    this.seen.set(key, isThere);
    this.listener(key);
  }

  remove(key: string): boolean {
    const { node, now, by } = this.at;
    this.collections.drop(key);
    const wasThere = node.remove(this.indexOf(key), by, now);
    if (wasThere) this.note(key, false);
    return wasThere;
  }

  expire(key: string, expiresAt: number): void {
    const { node, now } = this.at;
    node.expireIn(this.indexOf(key), expiresAt === NEVER ? null : expiresAt - this.nowMs, now);
    this.listener(key);
  }

  changed(key: string): void {
    const changed = this.collections.changed(key);
    if (changed === undefined) return;
    const { token, value } = changed;
    this.storeAs(this.tokenFor(key, value, token), key, value, KEEP);
  }

  *keys(): Iterable<string> {
    const { node, now } = this.at;
    for (const key of this.seen.keys()) if (node.ttlMs(this.indexOf(key), now) !== NO_KEY) yield key;
  }

  get size(): number {
    return [...this.keys()].length;
  }

  clear(): void {
    for (const key of [...this.keys()]) this.remove(key);
  }
}
