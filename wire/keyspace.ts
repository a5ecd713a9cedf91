import type { Value } from './values.js';

/** A key that is there. */
export interface Entry {
  /** Collections are changed in place, and {@link Keyspace.changed} is told. */
  readonly value: Value;
  /** When the key expires, ms of the node's clock, or {@link NEVER}. */
  readonly expiresAt: number;
  /** How Redis keeps a string: in the smallest form that fits (`auto`), never as a number (`text`), or changed in place (`raw`). */
  readonly form: StringForm;
}

/** See {@link Entry.form}. */
type StringForm = 'auto' | 'text' | 'raw';

/** The expiry of a key without one. */
export const NEVER: number = Number.POSITIVE_INFINITY;

/** In place of an expiry: that which the key has, or none. */
export const KEEP: number = -1;

/** The keys of one database of a node. A key that has expired is gone, and goes when somebody looks. */
export interface Keyspace {
  find(key: string): Entry | undefined;
  /** Sets a key, over whatever it was. @param expiresAt - Or {@link KEEP}. */
  store(key: string, value: Value, expiresAt: number, form?: StringForm): void;
  /** Says whether there was one. */
  remove(key: string): boolean;
  /** Sets when a key that is there expires. */
  expire(key: string, at: number): void;
  /** A collection was changed in place. */
  changed(key: string): void;
  /** All keys that are there. */
  keys(): Iterable<string>;
  /** How many there are; those that expired and were not looked at since may count. */
  readonly size: number;
  /** Deletes all. */
  clear(): void;
}

/** Receives every change of a key. */
type KeyListener = (key: string) => void;

/** Keys in memory, on a clock that is handed in. */
export class MemoryKeyspace implements Keyspace {
  private readonly entries = new Map<string, Entry>();
  private readonly nowMs: () => number;
  private readonly listener: KeyListener;

  /** @param nowMs - The node's clock, ms. */
  constructor(nowMs: () => number, listener: KeyListener) {
    this.nowMs = nowMs;
    this.listener = listener;
  }

  get size(): number {
    return this.entries.size;
  }

  find(key: string): Entry | undefined {
    const entry = this.entries.get(key);
    if (entry === undefined || entry.expiresAt === NEVER || this.nowMs() <= entry.expiresAt) return entry;
    this.remove(key);
    return undefined;
  }

  store(key: string, value: Value, expiresAt: number, form: StringForm = 'auto'): void {
    const at = expiresAt === KEEP ? (this.entries.get(key)?.expiresAt ?? NEVER) : expiresAt;
    this.entries.set(key, { value, expiresAt: at, form });
    this.listener(key);
  }

  remove(key: string): boolean {
    if (!this.entries.delete(key)) return false;
    this.listener(key);
    return true;
  }

  expire(key: string, at: number): void {
    const entry = this.entries.get(key);
    if (entry === undefined) return;
    this.entries.set(key, { ...entry, expiresAt: at });
    this.listener(key);
  }

  changed(key: string): void {
    this.listener(key);
  }

  *keys(): Iterable<string> {
    for (const key of [...this.entries.keys()]) if (this.find(key) !== undefined) yield key;
  }

  clear(): void {
    for (const key of [...this.entries.keys()]) this.remove(key);
  }
}
