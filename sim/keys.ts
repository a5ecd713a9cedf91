import { type TrueTime, trueTime } from './time.js';

/** No key. Tokens count from 1. */
export const NO_TOKEN = 0;

/** Keys that were set, to live until `when`, or deleted, in order of time: as many as `length` says; those behind count no more. */
export class Journal {
  length = 0;
  readonly at: TrueTime[] = [];
  readonly key: number[] = [];
  readonly token: number[] = [];
  readonly when: number[] = [];

  push(at: TrueTime, key: number, token: number, when: number): void {
    const place = this.length++;
    this.at[place] = at;
    this.key[place] = key;
    this.token[place] = token;
    this.when[place] = when;
  }

  /** Takes on what another one had by `until`. */
  take(other: Journal, until: number): void {
    let length = 0;
    for (; length < other.length && (other.at[length] ?? 0) <= until; length++) {
      this.at[length] = other.at[length] as TrueTime;
      this.key[length] = other.key[length] ?? 0;
      this.token[length] = other.token[length] ?? NO_TOKEN;
      this.when[length] = other.when[length] ?? 0;
    }
    this.length = length;
  }

  /** The place of the last entry of a key, or -1. */
  lastOf(key: number): number {
    let place = this.length - 1;
    while (place >= 0 && this.key[place] !== key) place--;
    return place;
  }
}

/** What a node has under its keys, by resource. What the lists have behind `count` is of earlier runs. */
export class Keys {
  /** How many resources there are here. */
  count = 1;
  /** A tick of the node's clock, µs, and how many a key is still there after the one in which it expires. */
  tickUs = 1000;
  graceTicks = 1;
  /** The token stored. */
  readonly tokens: number[] = [NO_TOKEN];
  /** When it expires, in ticks of the node's clock, and the first reading of that clock at which it is gone, µs. */
  readonly when: number[] = [0];
  readonly gone: number[] = [0];
  /** The TTL that it was given last, ticks; kept where a restart makes use of it. */
  readonly lives: number[] = [0];
  /** When it was written last; kept where the node may come back with what it had before. */
  readonly written: TrueTime[] = [trueTime(0)];

  /** For another run. */
  reset(): void {
    this.count = 0;
    this.reserve(0);
  }

  /** Makes room for a key, and for those before it. */
  reserve(key: number): void {
    for (; this.count <= key; this.count++) {
      this.tokens[this.count] = NO_TOKEN;
      this.when[this.count] = 0;
      this.gone[this.count] = 0;
      this.lives[this.count] = 0;
      this.written[this.count] = trueTime(0);
    }
  }

  /** The token stored under a key, expired or not; or {@link NO_TOKEN}. */
  tokenAt(key: number): number {
    return key < this.count ? (this.tokens[key] ?? NO_TOKEN) : NO_TOKEN;
  }

  /** A key expires in this tick. */
  endAt(key: number, when: number): void {
    this.when[key] = when;
    this.gone[key] = (when + this.graceTicks) * this.tickUs;
  }

  /** There is nothing under a key any more. */
  drop(key: number): void {
    if (key < this.count) this.tokens[key] = NO_TOKEN;
  }
}
