import type { SimLock } from '../../sim/index.js';
import type { Meaning } from './meaning.js';
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
  /** Tokens of values that nodes make: one has no value until a node has stored it. */
  private readonly made = new Set<number>();

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
  private claimFor(value: string, lock: SimLock): number {
    return this.tokens.get(value) ?? this.renew(value, lock);
  }

  /** The token in a command of a lock. */
  tokenIn({ value, operation }: Pick<Meaning, 'value' | 'operation'>, lock: SimLock): number {
    if (value === null) return operation === 'acquire' ? this.madeFor(lock) : lock.token;
    return this.isMadeFor(lock, value) ? lock.token : this.claimFor(value, lock);
  }

  /** The token of a value that a node makes for this lock: what it stores in a key of the lock next. */
  private madeFor(lock: SimLock): number {
    if (this.made.has(lock.token) && this.values[lock.token] === undefined) return lock.token;
    const token = this.numbering.newToken(lock);
    this.made.add(token);
    return token;
  }

  /** Whether a node has made this value for a lock. */
  isMadeFor(lock: SimLock, value: string | null): boolean {
    return this.made.has(lock.token) && this.values[lock.token] === value;
  }

  /** Gives a value that was used before to another lock. */
  renew(value: string, lock: SimLock | null): number {
    const token = this.numbering.newToken(lock);
    this.tokens.set(value, token);
    this.values[token] = value;
    return token;
  }

  tokenOf(value: string, by: number, key: number): number {
    const isNew = this.values[by] === undefined && this.lock?.keys.includes(key) === true;
    if (this.made.has(by) && (isNew || this.values[by] === value)) {
      this.tokens.set(value, by);
      this.values[by] = value;
      return by;
    }
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
