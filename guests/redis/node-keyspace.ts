import type { SimNode } from '../../sim/index.js';
import { type Entry, Failure, KEEP, type Keyspace, NEVER } from '../../wire/index.js';
import { fromBytes, toBytes } from './bytes.js';

/** What strings are called in the world: its keys and tokens are numbers. */
export interface Names {
  keyOf(key: string): number;
  tokenOf(value: string): number;
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

const STRINGS_ONLY = new Failure('ERR simulated nodes keep nothing but strings');

/** The keys of a simulated node, which a server works on: expiry, journal and what the world is told are the node's. */
export class NodeKeyspace implements Keyspace {
  /** Where commands are carried out now. */
  site: Site | null = null;
  private readonly seen = new Set<string>();

  private get at(): Site {
    if (this.site === null) throw new Error('a key without a node');
    return this.site;
  }

  private get nowMs(): number {
    const { node, now } = this.at;
    return Math.floor(node.clock.read(now) / 1000);
  }

  private indexOf(key: string): number {
    return this.at.names.keyOf(fromBytes(key));
  }

  find(key: string): Entry | undefined {
    const { node, now, names } = this.at;
    const index = this.indexOf(key);
    const token = node.stored(index, now);
    if (token === NO_TOKEN) return undefined;
    const left = node.ttlMs(index, now);
    const expiresAt = left === NO_EXPIRY ? NEVER : this.nowMs + left;
    return { value: toBytes(names.valueOf(token)), expiresAt, form: 'auto' };
  }

  store(key: string, value: Entry['value'], expiresAt: number): void {
    if (typeof value !== 'string') throw STRINGS_ONLY;
    const { node, now, names } = this.at;
    this.seen.add(key);
    const ttlMs = expiresAt === KEEP ? 'keep' : expiresAt === NEVER ? null : expiresAt - this.nowMs;
    node.store(this.indexOf(key), names.tokenOf(fromBytes(value)), ttlMs, now);
  }

  remove(key: string): boolean {
    const { node, now, by } = this.at;
    return node.remove(this.indexOf(key), by, now);
  }

  expire(key: string, expiresAt: number): void {
    const { node, now } = this.at;
    node.expireIn(this.indexOf(key), expiresAt === NEVER ? null : expiresAt - this.nowMs, now);
  }

  /** Nothing but strings is kept, and those are stored again. */
  changed(): void {}

  *keys(): Iterable<string> {
    const { node, now } = this.at;
    for (const key of this.seen) if (node.ttlMs(this.indexOf(key), now) !== NO_KEY) yield key;
  }

  get size(): number {
    return [...this.keys()].length;
  }

  clear(): void {
    for (const key of [...this.keys()]) this.remove(key);
  }
}
