import type { SimLock } from '../../sim/index.js';
import type { Names } from './node-keyspace.js';

/** What of a world gives numbers. */
interface Numbering {
  keyOf(key: string): number;
  newToken(lock: SimLock | null): number;
}

/** The strings of a run and their numbers: a token is any value that was ever stored, or offered, by a lock. */
export class RunNames implements Names {
  private readonly numbering: Numbering;
  private readonly tokens = new Map<string, number>();
  private readonly values: string[] = [];
  /** The lock whose command is being carried out: what it stores for the first time is its own. `null` before a run begins. */
  lock: SimLock | null = null;

  constructor(numbering: Numbering) {
    this.numbering = numbering;
  }

  keyOf(key: string): number {
    return this.numbering.keyOf(key);
  }

  known(value: string): number | undefined {
    return this.tokens.get(value);
  }

  /** The token of a value, which is this lock's if nobody has used it yet. */
  claimFor(value: string, lock: SimLock | null): number {
    return this.tokens.get(value) ?? this.renew(value, lock);
  }

  /** Gives a value that was used before to another lock. */
  renew(value: string, lock: SimLock | null): number {
    const token = this.numbering.newToken(lock);
    this.tokens.set(value, token);
    this.values[token] = value;
    return token;
  }

  tokenOf(value: string): number {
    return this.claimFor(value, this.lock);
  }

  valueOf(token: number): string {
    return this.values[token] ?? '';
  }
}
