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
  /** The lock whose command is being carried out: what it stores for the first time is its own. */
  lock: SimLock | null = null;
  private isFilled = false;

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
  claimFor(value: string, lock: SimLock): number {
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
    const known = this.tokens.get(value);
    if (known !== undefined) return known;
    if (this.lock === null && !this.isFilled) throw new Error('a value without a lock');
    return this.renew(value, this.lock);
  }

  /** Values that `fill` stores for the first time belong to no lock. */
  filledBy(fill: () => void): void {
    this.isFilled = true;
    fill();
    this.isFilled = false;
  }

  valueOf(token: number): string {
    return this.values[token] ?? '';
  }
}
