import { releasesInTurn } from '../../deviations/index.js';
import type { TraceEvent } from '../../sim/index.js';
import type { Attempt, Lock, TraceIndex, TraceRef } from './trace-index.js';

/** A value from a place of the trace on. */
interface From<T> extends TraceRef {
  readonly value: T;
}

/** One attempt, its token, and what became of its keys. */
export interface Use {
  readonly lock: Lock;
  readonly attempt: Attempt;
  /** From 0 per lock. */
  readonly number: number;
  readonly begin: TraceRef;
  /** Where it failed or was released. */
  over: TraceRef | null;
  /** Until when its key may be on a node, by the grants and extensions so far, on clocks that are right; µs. */
  readonly lives: From<number>[];
  /** What extensions asked for, ms. */
  readonly rounds: From<number>[];
  readonly released: (TraceRef & { readonly node: string })[];
  /** From when on nobody has any use for it, µs; or `null`. */
  readonly useless: From<number | null>[];
  /** The same, or the time at which a key of it came late, if that is later. */
  readonly orphaned: From<number | null>[];
  /** The nodes that have a key of it. */
  readonly holding: From<ReadonlySet<string>>[];
}

/** A key on a node, from when until when it was there and the use's own, µs; `null` if it still is. */
export interface KeyLifetime {
  readonly use: Use;
  readonly node: string;
  readonly resource: string;
  readonly fromUs: number;
  toUs: number | null;
}

/** What sends a command again. */
const RESENDS: readonly string[] = ['send', 'lost', 'no-script'];

/** All attempts of a run, and the instants in which a key that nobody has any use for came or went by itself. */
export class AttemptIndex {
  readonly strays: TraceRef[] = [];
  readonly stays: KeyLifetime[] = [];
  /** Releases by which locks are released: the first, or each where they are sent one after the other. */
  readonly givingBack: (TraceRef & { readonly lock: Lock })[] = [];
  private readonly record: TraceIndex;
  /** Those with a key on any node. */
  private readonly stored: From<readonly Use[]>[] = [];
  /** Those that locks began last, by token and lock. */
  private readonly byToken = new Map<number, Map<Lock, Use>>();
  /** Whose key it is on any node: of several attempts with one token, the last that asked for it. */
  private readonly owners = new Map<string, Use>();
  private readonly byLock = new Map<Lock, Use>();
  private readonly believing = new Set<Lock>();
  /** By the execution that it follows from. */
  private readonly answers = new Map<number, unknown>();
  /** By node, token and key. */
  private readonly there = new Map<string, KeyLifetime>();
  /** Nodes by token and key. */
  private readonly keys = new Map<string, Set<string>>();

  constructor(record: TraceIndex) {
    this.record = record;
    for (const { detail, cause } of record.events) if ('answer' in detail) this.answers.set(cause, detail.answer);
    for (const event of record.events) this.take(event);
  }

  private take(event: TraceEvent): void {
    const { kind, detail } = event;
    switch (kind) {
      case 'send':
      case 'lost':
        if (!('answer' in detail)) this.sent(event);
        break;
      case 'execute':
        this.executed(event);
        break;
      case 'key-set':
      case 'key-gone':
        this.keyChanged(event);
        break;
      case 'client-crash':
        for (const lock of this.record.locks) if (lock.client === event.process) this.dies(lock, event);
        break;
      case 'claim':
      case 'extended':
      case 'expired':
      case 'acquire-failed':
      case 'release-call':
      case 'released': {
        const lock = this.record.lockOf(event.process, Number(detail.lock));
        if (lock !== undefined) this.turn(lock, event);
        break;
      }
      default:
    }
  }

  private turn(lock: Lock, event: TraceEvent): void {
    const use = this.byLock.get(lock);
    if (use === undefined) return;
    switch (event.kind) {
      case 'claim':
      case 'extended':
        this.believing.add(lock);
        use.orphaned.push({ ...mark(event), value: null });
        use.useless.push({ ...mark(event), value: null });
        break;
      case 'expired':
        // Until its TTL is over, a key is there for a reason.
        if (this.believing.delete(lock)) orphan(use, event, Math.max(event.atUs, at(use.lives, event.seq) ?? 0));
        break;
      case 'acquire-failed':
      case 'released':
        this.believing.delete(lock);
        this.end(use, event, true);
        break;
      case 'release-call':
        if (this.record.setup.policy.habits.beliefEnds === 'at-release') this.believing.delete(lock);
        break;
      default:
    }
  }

  private dies(lock: Lock, event: TraceEvent): void {
    this.believing.delete(lock);
    const use = this.byLock.get(lock);
    if (use !== undefined) orphan(use, event, event.atUs);
  }

  private end(use: Use, event: TraceEvent, forGood: boolean): void {
    if (use.over !== null) return;
    use.over = mark(event);
    if (forGood) orphan(use, event, event.atUs);
  }

  private sent(event: TraceEvent): void {
    const { operation, client, lock: number, token, node, ttlMs } = event.detail;
    const lock = this.record.lockOf(String(client), Number(number));
    if (lock === undefined) return;
    if (operation === 'acquire') this.begin(lock, event);
    const use = this.byToken.get(Number(token))?.get(lock);
    if (use === undefined) return;
    if (operation === 'extend') use.rounds.push({ ...mark(event), value: Number(ttlMs) });
    if (operation !== 'release' || this.isResent(event)) return;
    use.released.push({ ...mark(event), node: String(node) });
    const [call] = lock.releaseCalls;
    const isGivingBack =
      call !== undefined && call.seq < event.seq && this.byLock.get(lock) === use && use.over === null;
    if (!isGivingBack) return;
    this.givingBack.push({ ...mark(event), lock });
    if (!releasesInTurn(this.record.setup.policy)) this.end(use, event, true);
  }

  /** Sent again by the network, or to a node that did not know the script by its hash: no lock decided that. */
  private isResent({ cause }: TraceEvent): boolean {
    return RESENDS.includes(this.record.events[cause]?.kind ?? '');
  }

  private begin(lock: Lock, event: TraceEvent): void {
    const number = Number(event.detail.attempt);
    const attempt = lock.attempts[number];
    const before = this.byLock.get(lock);
    if (attempt === undefined || (before !== undefined && before.number >= number)) return;
    const same = this.byToken.get(attempt.token) ?? new Map<Lock, Use>();
    if (before !== undefined) this.end(before, event, same.get(lock) !== before);
    const use: Use = {
      lock,
      attempt,
      number,
      begin: mark(event),
      over: null,
      lives: [],
      rounds: [],
      released: [],
      useless: [],
      orphaned: [],
      holding: [],
    };
    const names = this.namesOf(use);
    const others = new Set(names.flatMap((name) => this.owners.get(name) ?? []));
    const lives = [...others].map((it) => it.lives[it.lives.length - 1]?.value ?? 0);
    if (lives.length > 0) use.lives.push({ ...mark(event), value: Math.max(...lives) });
    // Their keys are the new one's.
    for (const [i, name] of names.entries()) {
      this.owners.set(name, use);
      for (const node of this.keys.get(name) ?? []) this.moves(name, node, use, lock.resources[i] ?? '', event);
    }
    for (const it of [...others, use]) this.hold(it, event);
    this.byToken.set(attempt.token, same.set(lock, use));
    this.byLock.set(lock, use);
  }

  private namesOf({ lock, attempt }: Use): string[] {
    return this.record.keyNames(lock).map((key) => `${attempt.token} ${key}`);
  }

  /** A key on a node is that of a use from now on, or of nobody. */
  private moves(name: string, node: string, use: Use | null, resource: string, { atUs }: TraceEvent): void {
    const place = `${node} ${name}`;
    const last = this.there.get(place);
    if (last !== undefined) last.toUs ??= atUs;
    this.there.delete(place);
    if (use === null) return;
    const stay: KeyLifetime = { use, node, resource, fromUs: atUs, toUs: null };
    this.there.set(place, stay);
    this.stays.push(stay);
  }

  /** Looks on which nodes a use has keys. */
  private hold(use: Use, event: TraceEvent): void {
    const own = this.namesOf(use).filter((name) => this.owners.get(name) === use);
    const holding = new Set(own.flatMap((name) => [...(this.keys.get(name) ?? [])]));
    use.holding.push({ ...mark(event), value: holding });
    this.store(use, event, holding.size > 0);
  }

  private store(use: Use, event: TraceEvent, isThere: boolean): void {
    const before = this.stored[this.stored.length - 1]?.value ?? [];
    if (before.includes(use) === isThere) return;
    this.stored.push({ ...mark(event), value: isThere ? [...before, use] : before.filter((it) => it !== use) });
  }

  /** The uses with a key on any node, before a place of the trace. */
  storedAt(seq: number): readonly Use[] {
    return at(this.stored, seq) ?? [];
  }

  private executed(event: TraceEvent): void {
    const { operation, token, attempt, ttlMs } = event.detail;
    if (operation !== 'acquire' && operation !== 'extend') return;
    // A node that has not answered may hold a yes back.
    if ((this.answers.get(event.seq) ?? 'yes') !== 'yes') return;
    const lock = this.record.lockOf(String(event.detail.client), Number(event.detail.lock));
    const use = lock === undefined ? undefined : this.byToken.get(Number(token))?.get(lock);
    if (use?.number !== Number(attempt)) return;
    // A key is still there in the last millisecond of its TTL.
    const untilUs = event.atUs + 1000 * (Number(ttlMs) + 1);
    use.lives.push({ ...mark(event), value: Math.max(untilUs, at(use.lives, event.seq) ?? 0) });
  }

  private keyChanged(event: TraceEvent): void {
    const { token, resource, how } = event.detail;
    const name = `${token} ${resource}`;
    const isSet = event.kind === 'key-set';
    const nodes = this.keys.get(name) ?? new Set<string>();
    if (isSet) nodes.add(event.process);
    else nodes.delete(event.process);
    this.keys.set(name, nodes);
    const use = this.owners.get(name);
    if (use === undefined) return;
    const own = use.lock.resources[this.namesOf(use).indexOf(name)] ?? '';
    this.moves(name, event.process, isSet ? use : null, own, event);
    this.hold(use, event);
    const since = at(use.orphaned, event.seq) ?? null;
    if (since === null) return;
    if (isSet) use.orphaned.push({ ...mark(event), value: Math.max(since, event.atUs) });
    const isOld = use.number < (this.byLock.get(use.lock)?.number ?? 0);
    if (isSet || how !== 'deleted' || isOld) this.strays.push(mark(event));
  }
}

function orphan(use: Use, event: TraceEvent, fromUs: number): void {
  for (const times of [use.orphaned, use.useless]) {
    const since = times[times.length - 1]?.value ?? null;
    if (since === null || since > fromUs) times.push({ ...mark(event), value: fromUs });
  }
}

function mark({ seq, atUs }: TraceEvent): TraceRef {
  return { seq, atUs };
}

/** What was so before a place of the trace. */
export function at<T>(values: readonly From<T>[], seq: number): T | undefined {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle]?.seq ?? 0) < seq) low = middle + 1;
    else high = middle;
  }
  return values[low - 1]?.value;
}
