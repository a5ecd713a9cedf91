import type { Answer } from '../core/index.js';
import type { Meaning } from '../libraries/redis/meaning.js';
import { isUnconditional, type Said } from './said.js';
import { calls } from './unknown.js';

/** What is taken of a TTL for work: clocks differ by a little, and who relies on the last of it relies on chance. */
const USABLE_SHARE = 0.98;
const USABLE_LESS_MS = 3;

/** A key that ends takes its time to reach who has it, ms. */
const LATE_MS = 50;

/** A value that a process offered for its lock. */
interface Offer {
  readonly value: string;
  ttlMs: number | null;
  /** When it was sent to each node last: a further try on a node counts from its own time. */
  readonly sentMs: Map<number, number>;
  /** When that was sent which a node has granted. */
  readonly grantedMs: Map<number, number>;
  /** The nodes on which it was deleted since. */
  readonly deletedOn: Set<number>;
}

/** A try that a node has not answered. */
interface Owed {
  readonly offer: Offer;
  readonly connection: object;
  /** It was taken back meanwhile. */
  isTakenBack: boolean;
}

/** One acquisition of one process, as its connections show it. */
export class Trial {
  readonly sent: Said[] = [];
  /** Those of them that release a key. Whether there are any is asked at each step of what runs under the lock. */
  readonly releases: Said[] = [];
  /** Resolves when enough nodes have granted the lock. */
  granted: Promise<void>;
  /** Its call has ended with the lock: once that is granted, what is sent is no further try. */
  isHeld = false;
  /** When the lock was granted, and when its process first touched the key again, ms by the wall clock. */
  grantedMs: number = Number.NaN;
  endedMs: number = Number.NaN;
  /** Called at that. */
  onEnd: (() => void) | null = null;
  /** The key that is asked for first. */
  key: string | null = null;
  /** The arguments of its call, and properties of these (`order.id`), that tell what it is about. */
  readonly names: Set<string> = new Set();
  refusals = 0;
  errors = 0;
  extensions = 0;
  /** An extension was granted though its key had ended: it has set the key again. */
  isRevived = false;
  private untilMs = Number.NaN;
  private extensionMs: number | null = null;
  /** What was extended last is the key of the lock, and not another one. */
  private isOwnExtension = false;
  /** The last two commands before it was granted: a script that is not known yet is sent twice. */
  private acquiredBy: readonly string[] = [];
  /** What extended it last is the command by which it was acquired. */
  private asksAgain = false;
  /** An extension was refused: what sets the key then is another acquisition. */
  private isTold = false;
  /** How many commands were sent before each call of a function that is not known, as one that does the work. */
  readonly worksAfter: number[] = [];
  /** By which names these were found: all of them, and those that were called after it has asked. */
  readonly calls: string[] = [];
  readonly works: string[] = [];
  /** Those of them that do harm where they are late, or are made twice. */
  readonly harms: string[] = [];
  /** When these were called, ms by the wall clock. */
  readonly worksAtMs: number[] = [];
  /** The status by which its call has answered a request; `null` where it has not. */
  status: number | null = null;
  /** What its call has returned, where that has not failed. */
  returned: unknown = undefined;
  /** Transactions that it was run in, or has run: how many commands were sent before each, and before its commit. */
  readonly transactions: { readonly from: number; to: number }[] = [];
  /** It can be relied on for this share of its TTL. */
  share = 1;
  /** Its call goes on until it is told to stop, and may acquire the lock several times. */
  loops = false;
  private isAnew = false;
  /** It has set another key before, whether or not that was there. */
  setsBefore = false;
  private readonly offers = new Map<string, Offer>();
  private latest = '';
  /** Of the offers that enough nodes have granted, the one that was granted last. */
  private won: Offer | null = null;
  /** The nodes that were asked since they have answered last, with the connection over which. */
  private readonly unanswered = new Map<number, object | undefined>();
  /** What each node was asked for last: its next answer is about that. */
  private readonly asked = new Map<number, Offer>();
  /** The tries that each node has not answered, the oldest first, where their connection is known: it answers in order. */
  private readonly owed = new Map<number, Owed[]>();
  /** Keys of further locks that are held at once. */
  private readonly seconds = new Set<string>();
  private readonly needed: number;
  private tell: () => void = () => {};
  /** Resolves when its process closes a connection (QUIT) and has released the lock: what it waits for then is no part of that. */
  readonly quits: Promise<void>;
  private tellQuits: () => void = () => {};
  /** The nodes to which it has sent a transaction that adds something. */
  readonly adds: Set<number> = new Set<number>();
  /** The connections over which it has sent anything, where they are known. */
  readonly connections: Set<object> = new Set<object>();
  /** What it has sent to watch keys and in transactions, with the connection of each. */
  readonly watches: { readonly said: Said; readonly over: object }[] = [];
  /** What waits until the work is done; `null` where nothing is kept back. */
  kept: { readonly connections: Set<object>; readonly sends: (() => void)[] } | null = null;
  /** For how long what it sends at the end of its work was kept back: its client may have given that up meanwhile. */
  keptForMs = 0;

  constructor(needed: number) {
    this.needed = needed;
    this.granted = new Promise((resolve) => {
      this.tell = resolve;
    });
    this.quits = new Promise((resolve) => {
      this.tellQuits = resolve;
    });
  }

  get isGranted(): boolean {
    return this.won !== null;
  }

  /** It has released a key after it was granted its own. */
  get isReleased(): boolean {
    return this.releases.some(({ atMs }) => atMs >= this.grantedMs);
  }

  private get offer(): Offer | undefined {
    return this.won ?? this.offers.get(this.latest);
  }

  /** @param connection - Over which it goes out, where it is known. */
  heard(said: Said, connection?: object): void {
    this.sent.push(said);
    if (said.operation === 'release') this.releases.push(said);
    if (connection !== undefined) this.connections.add(connection);
    if (!this.isGranted) this.acquiredBy = [this.acquiredBy[1] ?? '', String(said.words)];
    if ((said.verb === 'watch' || said.inMulti === true) && connection !== undefined)
      this.watches.push({ said, over: connection });
    if (said.operation === 'acquire' && said.value !== null && !(this.isHeld && this.isGranted)) {
      if (this.isBeforeLock(said)) {
        this.setsBefore ||= this.key !== null;
        this.startAgain();
      }
      this.key ??= said.key;
      if (said.key !== this.key) return;
      this.offered(said.value, said, connection);
    }
    this.isAnew ||= this.loops && this.isHeld && said.operation === 'acquire' && said.key === this.key;
    if (said.operation === 'release' && said.key === this.key) {
      this.offer?.deletedOn.add(said.node);
      for (const it of this.owed.get(said.node) ?? []) it.isTakenBack ||= it.offer === this.offer;
    }
    if (said.operation === 'extend') {
      // What stores another value for another time stores a result, and no lock.
      const isResult = said.replaces === true && said.ttlMs !== this.ttlMs;
      this.isOwnExtension = said.words.includes(this.key ?? '') && !isResult;
      // A leader that campaigns in each round by one command begins a new term, and revives no old one.
      this.asksAgain = this.acquiredBy.includes(String(said.words));
    }
    if (said.operation === 'extend' && said.key === this.key) {
      this.extensions++;
      this.extensionMs = said.ttlMs;
      const { offer } = this;
      if (offer !== undefined && offer.ttlMs === null) offer.ttlMs = said.ttlMs;
    }
  }

  /** Its process closes a connection. */
  closes(): void {
    if ((this.offer?.deletedOn.size ?? 0) > 0) this.tellQuits();
  }

  /** What it set before, whether or not that was there, was no lock: one is asked for after that by a condition. */
  private isBeforeLock({ key, ifNew, verb }: Said): boolean {
    if (key === this.key || !(ifNew || verb === 'script')) return false;
    return this.sent.every((it) => it.key !== this.key || (it.verb === 'set' && !it.ifNew));
  }

  private startAgain(): void {
    this.key = null;
    this.won = null;
    this.grantedMs = Number.NaN;
    this.offers.clear();
    this.asked.clear();
  }

  private offered(value: string, { node, atMs, ttlMs }: Said, connection: object | undefined): void {
    const offer = this.offers.get(value) ?? {
      value,
      ttlMs,
      sentMs: new Map(),
      grantedMs: new Map(),
      deletedOn: new Set(),
    };
    // It is granted again, or not at all.
    if (offer.deletedOn.delete(node)) {
      offer.grantedMs.delete(node);
      if (this.won === offer) this.won = null;
    }
    // Who asks a node again counts what it answers then.
    if (this.won !== offer) offer.grantedMs.delete(node);
    this.latest = value;
    // The next answer may be to the first of several tries over one connection.
    const isPending = this.unanswered.has(node) && this.unanswered.get(node) === connection;
    if (!isPending || this.asked.get(node) !== offer) offer.sentMs.set(node, atMs);
    this.unanswered.set(node, connection);
    this.asked.set(node, offer);
    const before = (this.owed.get(node) ?? []).filter((it) => it.connection === connection);
    if (connection !== undefined) this.owed.set(node, [...before, { offer, connection, isTakenBack: false }]);
    this.offers.set(value, offer);
  }

  answered(node: number, operation: Said['operation'], answer: Answer, nowMs: number): void {
    if (operation === 'extend' && answer === 'yes' && this.isGranted && this.isOwnExtension && !this.isAnew) {
      this.isRevived ||= !this.asksAgain && !this.isTold && nowMs > this.untilMs + LATE_MS;
      this.untilMs = nowMs + Math.max(this.extensionMs ?? 0, this.ttlMs ?? Number.POSITIVE_INFINITY);
    }
    this.isTold ||= operation === 'extend' && answer === 'no' && this.isOwnExtension;
    const oldest = operation === 'acquire' ? this.owed.get(node)?.shift() : undefined;
    // What extends where the key is its own may have set it.
    const isOffer = operation === 'acquire' || (operation === 'extend' && this.asked.has(node));
    if (!isOffer || (this.isGranted && (this.isHeld || operation === 'extend'))) return;
    this.unanswered.delete(node);
    if (answer !== 'yes') {
      if (answer === 'no') this.refusals++;
      else this.errors++;
      return;
    }
    const offer = this.asked.get(node);
    // What it has taken back meanwhile, it does not count, nor what it has given up for a try with another token.
    const isGivenUp = oldest !== undefined && (oldest.isTakenBack || oldest.offer !== offer);
    if (offer === undefined || offer.deletedOn.has(node) || isGivenUp) return;
    offer.grantedMs.set(node, offer.sentMs.get(node) ?? nowMs);
    if (offer.grantedMs.size < this.needed || this.won === offer) return;
    this.won = offer;
    this.grantedMs = nowMs;
    this.untilMs = nowMs + (offer.ttlMs ?? Number.POSITIVE_INFINITY);
    this.tell();
  }

  /** What its key lives for, ms; `null` for ever. */
  get ttlMs(): number | null {
    return this.offer?.ttlMs ?? null;
  }

  /** Its key has no end of its own: see {@link Said.endsByValue}. */
  get endsByValue(): boolean {
    return this.sent.some((it) => it.endsByValue && it.key === this.key) && this.extensions === 0;
  }

  /** The value that was granted, or else the one that it has offered last. */
  get value(): string {
    return this.won?.value ?? this.latest;
  }

  /**
   * Whether a command sets guarded data while the lock is held, or after it: another key without a TTL, or whether or not that is there;
   * or is about a second lock that is taken while the first is held, with a token of its own.
   */
  hasBeside(words: readonly string[], { operation, keys, ttlMs, value }: Meaning): boolean {
    const [key = ''] = keys;
    if (this.isSecond(words, operation, key, value)) this.seconds.add(key);
    if (this.seconds.has(key)) return true;
    const isData = ttlMs === 0 || isUnconditional(words);
    if (operation !== 'acquire' || !isData || this.ttlMs === null || Number.isNaN(this.grantedMs)) return false;
    const isOther = this.key !== null && !keys.includes(this.key) && value !== this.value;
    return isOther && this.sent.some((it) => it.key === this.key && (it.ifNew || it.verb === 'script'));
  }

  private isSecond(
    words: readonly string[],
    operation: Meaning['operation'],
    key: string,
    value: string | null,
  ): boolean {
    if (operation !== 'acquire' || key === '' || key === this.key || value === null || value === this.value)
      return false;
    // A function that takes two things and compares them has one lock for each.
    const isOfTwo = [...calls.unequal].some((it) => [key, this.key ?? ''].some((name) => name.includes(`-${it}`)));
    return isOfTwo && this.won?.deletedOn.size === 0 && words.some((it) => /^nx$/i.test(it));
  }

  /** Until when its caller may rely on it, ms by the wall clock, if its TTL is what ends it. */
  reliableUntil(nowMs: number, otherwiseMs: number): number {
    const { offer } = this;
    const ttlMs = offer === undefined ? otherwiseMs : offer.ttlMs;
    if (ttlMs === null) return Number.POSITIVE_INFINITY;
    // The key that was asked for first ends first. An answer may be on its way to here, and with the caller already.
    const fromMs = offer === undefined ? [] : [...(this.isGranted ? offer.grantedMs : offer.sentMs).values()];
    return Math.min(nowMs, ...fromMs) + usable(ttlMs * this.share);
  }

  /** When the first of the keys that it was granted ends, ms by the wall clock. */
  get endMs(): number {
    const { offer } = this;
    return offer === undefined || offer.ttlMs === null
      ? Number.NaN
      : Math.min(...offer.grantedMs.values()) + offer.ttlMs;
  }

  /** It has taken back what was granted. */
  giveUp(): void {
    this.won = null;
    this.endedMs = Number.NaN;
    this.kept?.connections.clear();
    for (const send of this.kept?.sends.splice(0) ?? []) send();
    this.granted = new Promise((resolve) => {
      this.tell = resolve;
    });
  }

  /** Sends what was kept back until now, ms by the wall clock. */
  letGo(nowMs: number): void {
    const { kept } = this;
    if (kept !== null && kept.sends.length > 0) this.keptForMs = nowMs - this.endedMs;
    this.kept = null;
    for (const send of kept?.sends ?? []) send();
  }
}

/** How much of a TTL a caller may rely on, ms. */
export function usable(ttlMs: number): number {
  return ttlMs * USABLE_SHARE - USABLE_LESS_MS;
}
