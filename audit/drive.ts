import { randomUUID } from 'node:crypto';
import { LockOverError, type MakeLock } from '../libraries/lock-under-test.js';
import type { NodeAddress } from '../libraries/net/addresses.js';
import { current, type ProcessContext } from '../libraries/runtime/owner.js';
import { callOf, type Target, takesCallback } from './call.js';
import { type Callable, isAsync } from './callables.js';
import { isOwnWork } from './cases.js';
import { isOfEach } from './claims.js';
import { conditions } from './conditions.js';
import { environmentFor } from './environment.js';
import { exportsOf, insideOf } from './evaluation.js';
import { formed } from './forms.js';
import type { Given } from './given.js';
import { answerOf, beliefOf, comparedBeliefOf, type HeldByFile, isLike, isRefusal, releaserIn } from './held.js';
import { type Bench, beginIn, follow, type Loaded, later, loadIn, methodOf, takesKey } from './load.js';
import { getsLock, stopped } from './own-work.js';
import { type Plan, saysWhether, takerIn, type Understood } from './plan.js';
import { answered, noteAnswer, responseOf } from './response.js';
import { isResponse, roleOf } from './roles.js';
import { CAMPAIGNS, listenTo, type Terms } from './terms.js';
import { type Trial, usable } from './trial.js';
import { calls } from './unknown.js';
import { enter } from './work.js';
import { lockOfWork, termsOf } from './work-lock.js';

/** What may refuse a command, or go on without it, before it is connected. */
const LOOKS_WHETHER_CONNECTED =
  /\bdisableOfflineQueue:\s*true|\benableOfflineQueue:\s*false|\bis(?:Ready|Connected)\b|\.status\s*[!=]==?\s*['"]ready|\b(?:connected|ready)\s*=\s*true/;

/** Within this clients are connected, ms of simulated time. */
const CONNECTING_MS = 100;

/** A file that does its work as it is loaded has this long for it, ms of simulated time. */
const SCRIPT_MS = 15_000;

/**
 * Makes the lock of a file, as `plan` says that it is used.
 *
 * @param planOf - How a process uses it, by its name. Default: all as `plan` says.
 */
export function lockMaker(bench: Bench, how: Understood, planOf: (process: string) => Plan = () => how.plan): MakeLock {
  return async ({ addresses }) => {
    const process = current.owner;
    if (process === null) throw new Error('a lock is made outside of its process');
    calls.finds = bench.finds;
    conditions.passed = bench.passed;
    const own = addresses.slice(0, how.nodes) as [NodeAddress, ...NodeAddress[]];
    if (how.isOpen && how.nodes > 1)
      Object.assign(globalThis.process.env, environmentFor(bench.program.sources, own.length));
    const loaded = await loadIn(bench, own, planOf(process.name).use === 'script');
    const user = new LockUser(bench, { ...how, plan: planOf(process.name) }, loaded, process);
    await user.prepare();
    return {
      acquire: (resource, ttlMs) => user.acquire(resource, ttlMs),
      release: (held) => user.release(held as HeldByFile),
    };
  };
}

const EXTENSIONS = ['extend', 'renew', 'refresh', 'prolong', 'touch'];

/** How often it is looked whether a campaign has been won. */
const MOST_LOOKS = 200;

/** A lock that gives its work up by itself does so after this share of its TTL. */
const LATE_SHARE = 0.4;

/** The least that a lock may be held for, ms. */
const LEAST_MS = 0.001;

type Extender = { readonly it: Callable; readonly name: string; readonly owner: unknown };

class LockUser {
  private readonly bench: Bench;
  private readonly how: Understood;
  private readonly loaded: Loaded;
  private readonly process: ProcessContext;
  /** Made once, unless it is made for a key. */
  private target: unknown;
  private isMade = false;
  private terms: Terms;

  constructor(bench: Bench, how: Understood, loaded: Loaded, process: ProcessContext) {
    this.bench = bench;
    this.how = how;
    this.loaded = loaded;
    this.process = process;
    this.terms = termsOf(process);
  }

  private async targetFor(given: Given, isEarly = false): Promise<unknown> {
    const { path, open, begin = [], isOne } = this.how.plan;
    if (this.isMade) {
      // Each campaign is one of its own.
      this.isMade = !this.how.campaigns;
      return this.target;
    }
    await beginIn(this.loaded, begin, given);
    const target = await follow(this.loaded, path, given);
    if (open) await callOf(methodOf(this.loaded, target, open), given);
    this.target = target;
    const isMade = path.some(({ kind }) => kind === 'new' || kind === 'call');
    const isOfCall = path.some(({ name }) => isOfEach(this.bench.program.texts, name));
    const isKept = !isOfCall && (!this.how.campaigns || isEarly);
    this.isMade = isKept && (isOne === true || !isMade || !(await takesKey(this.loaded, path, given)));
    return target;
  }

  /** What refuses before it is connected, or has to be begun, is made as its process begins. */
  async prepare(): Promise<void> {
    const { sources } = this.bench.program;
    const { open, begin = [] } = this.how.plan;
    const refuses = this.bench.wire.tellsApart || sources.some(({ text }) => LOOKS_WHETHER_CONNECTED.test(text));
    if (!refuses && !open && begin.length === 0) return;
    const given = {
      ...this.loaded.given,
      key: 'a',
      ttlMs: 1_000,
      token: randomUUID(),
      unitMs: this.how.unitMs,
      isBare: this.how.isBare,
    };
    await this.targetFor(given, true);
    if (refuses) await later(CONNECTING_MS);
  }

  async acquire(key: string, ttlMs: number): Promise<HeldByFile | null> {
    const { how, loaded, process } = this;
    const { plan } = how;
    const worksItself = isOwnWork(how);
    const terms = this.isMade && plan.take !== '' ? this.terms : termsOf(process);
    this.terms = terms;
    const base: Given = {
      ...loaded.given,
      key: plan.named ?? (how.isLong ? formed(key, this.bench.program.texts) : key),
      ttlMs,
      token: randomUUID(),
      terms,
      unitMs: how.unitMs,
      isBare: how.isBare,
      reads: plan.reads === true,
      worksItself,
      leads: plan.use === 'pair' && CAMPAIGNS.test(plan.take),
      ...(plan.differs === undefined ? {} : { differs: plan.differs }),
      ...(plan.owners === undefined ? {} : { owners: plan.owners }),
      ...(plan.swaps === undefined ? {} : { swaps: plan.swaps }),
    };
    const trial = this.bench.wire.begin(process, how.asksOne ? 1 : Math.floor(how.nodes / 2) + 1, worksItself);
    trial.share = how.lastsShare;
    if (plan.use === 'script') {
      // What it has begun as it was loaded goes on, and may lead for several terms.
      trial.loops = this.bench.program.texts.some((it) => /\bset(?:Interval|Timeout)\(/.test(it));
      const loaded = loadIn(this.bench, []);
      const after = (ms: number): Promise<void> => loaded.then(() => later(ms));
      // One of several nodes may be frozen, and is waited for.
      const waitsMs = how.nodes > 1 ? Math.max(SCRIPT_MS, 2 * (how.fixedTtlMs ?? 0)) : SCRIPT_MS;
      return this.worksItself(trial, after(SCRIPT_MS), after(waitsMs));
    }
    base.names = trial.names;
    const target = await this.targetFor(base);
    const taker = this.takerOf(target);
    base.named = taker.parameters.map(({ name }) => name);
    const acquiring = { ...base, isAcquiring: true };
    listenTo(process, target, terms);
    if (plan.use === 'with') return this.runsWork(trial, key, acquiring, taker);
    if (worksItself) {
      const stop = new AbortController();
      const response = responseOf();
      const call = (): Promise<unknown> => callOf(taker, { ...acquiring, response: response.it, stop: stop.signal });
      const mayGoOn = !isAsync(taker.it) && taker.parameters.some(isResponse);
      const done = mayGoOn ? answered(call, response) : call();
      noteAnswer(trial, done, response);
      trial.loops = taker.parameters.some((it) => roleOf(it) === 'signal' && !it.isOptional);
      return this.worksItself(trial, done, done, stop);
    }
    const owner: unknown = plan.take === '' ? this.besides : target;
    const given: unknown = await callOf(taker, acquiring);
    trial.returned = given;
    listenTo(process, given, terms);
    // What gives its own object gives nothing that tells one lock from another.
    const result = given === target ? undefined : given;
    if (isRefusal(result, how.voidHolds, how.refusal)) return null;
    if (how.campaigns) {
      if (!(await this.isElected(() => this.saysSo(owner, owner, terms), how.fixedTtlMs ?? ttlMs))) {
        await this.giveBack(target, result, base);
        return null;
      }
    } else if (saysWhether(how) && !this.saysSo(owner, owner, terms)) return null;
    const leave = (error?: Error): Promise<unknown> => this.giveBack(target, held.result, base, error);
    const held = this.held(trial, ttlMs, result, leave, undefined, { owner, terms });
    return held;
  }

  /** @throws LockOverError where what rejects says that the lock is over. */
  async release(held: HeldByFile): Promise<unknown> {
    try {
      return await held.leave();
    } catch (error) {
      throw this.isOver(held, error) ? new LockOverError('the lock is over', { cause: error }) : error;
    }
  }

  private isOver({ signal, trial, ttlMs }: HeldByFile, error: unknown): boolean {
    const { how, process } = this;
    if (signal?.aborted || (error instanceof DOMException && /^(?:Abort|Timeout)Error$/.test(error.name))) return true;
    const lastsMs = how.fixedTtlMs ?? ttlMs;
    const forMs = process.wallMs() - trial.grantedMs;
    return trial.keptForMs > 0 || (how.rejectsLate && forMs > lastsMs * LATE_SHARE) || (!how.renews && forMs > lastsMs);
  }

  private takerOf(target: unknown): Target {
    const { take } = this.how.plan;
    const it = (take === '' ? target : Reflect.get(target as object, take)) as Callable;
    const name = takerIn(this.how.plan);
    return { it, owner: take === '' ? undefined : target, parameters: this.loaded.shapes.of(it, name).parameters };
  }

  /** Waits until a campaign has been won; for no longer than it takes for a lock that was left behind to end. */
  private async isElected(says: () => boolean, ttlMs: number): Promise<boolean> {
    for (let i = 0; i < MOST_LOOKS; i++) {
      if (says()) return true;
      await later(Math.max(1, (2 * ttlMs) / MOST_LOOKS));
    }
    return false;
  }

  private saysSo(result: unknown, owner: unknown, terms?: Terms): boolean {
    const { sign } = this.how;
    if (sign?.of === 'told') return terms?.isLeading(sign) ?? false;
    return sign !== null && answerOf(sign.of === 'owner' ? owner : result, sign.name) === sign.whenHeld;
  }

  /** The lock is handed work, and holds while that is done. */
  private async runsWork(trial: Trial, key: string, base: Given, target: Target): Promise<HeldByFile | null> {
    const entered = await enter(this.loaded.shapes, target, base);
    if (entered === null) return null;
    const { given } = entered;
    const signal = given
      .map((one) => (one instanceof AbortSignal ? one : (one as { signal?: unknown } | null)?.signal))
      .find((one) => one instanceof AbortSignal);
    const leave = async (error?: Error): Promise<unknown> => {
      const left = entered.leave(error);
      const [release] = given;
      if (this.how.handsRelease && error === undefined) await (release as Callable)();
      return left;
    };
    const by = { owner: this.besides, terms: base.terms ?? this.terms };
    const own = given.filter((it) => !entered.handed.includes(it as object));
    for (const it of own) listenTo(this.process, it, by.terms);
    const held = this.held(trial, base.ttlMs, lockOfWork(entered, by.owner, this.process), leave, signal, by);
    if (entered.hangUp !== null) held.hangUp = entered.hangUp;
    held.reenter = () => entered.inContext(() => this.acquire(key, base.ttlMs));
    return held;
  }

  /**
   * The function does its own work; what it sends at the end of it is kept back until that is over.
   *
   * @param givesUp - By then it has the lock, or does not get it.
   */
  private async worksItself(
    trial: Trial,
    done: Promise<unknown>,
    givesUp: Promise<unknown>,
    stop?: AbortController,
  ): Promise<HeldByFile | null> {
    for (const it of [done, givesUp]) it.catch(() => {});
    const { how, process } = this;
    const isOver = (): boolean => trial.reliableUntil(process.wallMs(), 0) <= process.wallMs();
    const isUncertain = (): boolean => how.nodes > 1 && (how.callsWork || isOver());
    // What it does first may be to look.
    const counts = (name: string): boolean => name === (how.lastWork ?? name) || !isOver();
    // What has taken its try back and closes its connections asks no more.
    const ends = Promise.race([givesUp, trial.quits]);
    if (!(await getsLock(trial, process, ends, isUncertain, counts))) {
      trial.letGo(process.wallMs());
      return null;
    }
    return this.held(trial, 0, undefined, async () => {
      trial.letGo(process.wallMs());
      return Promise.race([stop === undefined ? done : stopped(done, stop), trial.quits]);
    });
  }

  private held(
    trial: Trial,
    ttlMs: number,
    result: unknown,
    leave: HeldByFile['leave'],
    signal?: AbortSignal,
    by: Pick<HeldByFile, 'owner' | 'terms'> = { owner: this.besides },
  ): HeldByFile {
    const { how, process } = this;
    const held: HeldByFile = { trial, result, ttlMs, ...by, leave, ...(signal === undefined ? {} : { signal }) };
    const nowMs = process.wallMs();
    trial.isHeld = true;
    // Who hears of its lock when that is over cannot work under it.
    const isOver = how.renews && how.nodes === 1 && trial.isGranted && trial.reliableUntil(nowMs, ttlMs) <= nowMs;
    if (how.plan.use === 'pair' && !isOver && this.extenderOf(held) !== null)
      held.extend = (forMs) => this.extend(held, forMs);
    const named = isOver ? null : this.saidOf(result, how.fixedTtlMs ?? ttlMs);
    const canSay = signal === undefined && !isOver && how.sign !== null && (how.renews || how.nodes > 1);
    const says = named ?? (how.campaigns || canSay ? () => this.saysSo(held.result, by.owner, by.terms) : null);
    const untold = by.terms?.untilLost() ?? null;
    if (says !== null)
      return Object.assign(held, { isHeld: () => signal?.aborted !== true && says() && untold?.() !== false });
    if (how.renews && !isOver) {
      if (signal !== undefined) return held;
      return Object.assign(held, untold === null ? { expiresAt: Number.POSITIVE_INFINITY } : { isHeld: untold });
    }
    if (how.nodes > 1 && signal !== undefined) return held;
    held.expiresAt = trial.reliableUntil(nowMs, how.fixedTtlMs ?? ttlMs);
    // What is left may be less than the allowance made here, and more than the lock's own.
    if (how.nodes > 1 && held.expiresAt <= nowMs && trial.endMs > nowMs) held.expiresAt = nowMs + LEAST_MS;
    return held;
  }

  /** How a lock says that it is held: in any way, or, if nobody extends it, by comparing the time. */
  private saidOf(result: unknown, ttlMs: number): (() => boolean) | null {
    const { how, process } = this;
    const lock = { result, of: this.besides, process };
    return how.renews || how.nodes > 1 ? beliefOf(lock, how.renews) : comparedBeliefOf(lock, ttlMs - usable(ttlMs));
  }

  private async giveBack(target: unknown, result: unknown, base: Given, error?: Error): Promise<unknown> {
    const { plan } = this.how;
    const given: Given = { ...base, held: result };
    if (error !== undefined) return undefined;
    const own = releaserIn(result);
    if (own !== null) {
      const { parameters } = this.loaded.shapes.of(own, '');
      return takesCallback(parameters) ? callOf({ it: own, owner: result, parameters }, given, true) : own.call(result);
    }
    if (plan.give === null) return undefined;
    const it = this.functionBeside(target, plan.give);
    const { parameters } = this.loaded.shapes.of(it, plan.give);
    return callOf({ it, owner: plan.take === '' ? undefined : target, parameters }, given, true);
  }

  /** A method of the same object, or a function that is exported beside it. */
  private functionBeside(target: unknown, name: string): Callable {
    if (this.how.plan.take !== '') return (target as Readonly<Record<string, Callable>>)[name] as Callable;
    return this.besides[name] as Callable;
  }

  /** What the function that acquires is found in. */
  private get besides(): Readonly<Record<string, unknown>> {
    const { take, path } = this.how.plan;
    if (take !== '') return this.target as Readonly<Record<string, unknown>>;
    return path[0]?.kind === 'inside'
      ? insideOf(this.loaded.exports)
      : Object.fromEntries(exportsOf(this.loaded.exports));
  }

  /** The function that extends a lock: its own method, or one beside that which acquires; `null` where there is none. */
  private extenderOf({ result }: HeldByFile): Extender | null {
    const { plan } = this.how;
    const of = (name: string): unknown => Reflect.get(Object(result), name);
    const own = EXTENSIONS.find((name) => typeof of(name) === 'function');
    if (own !== undefined) return { it: of(own) as Callable, name: own, owner: result };
    if (plan.extend === null) return null;
    return { it: this.functionBeside(this.target, plan.extend), name: plan.extend, owner: this.target };
  }

  /** Extends a lock by what it was acquired for, or more: by less, nobody extends. What fails, nobody relies on. */
  private async extend(held: HeldByFile, askedMs: number): Promise<boolean> {
    const { how, process } = this;
    const ttlMs = Math.max(askedMs, held.ttlMs);
    const { result } = held;
    const calledMs = process.wallMs();
    const extender = this.extenderOf(held);
    if (extender === null) return false;
    const { it, name, owner } = extender;
    const { parameters } = this.loaded.shapes.of(it, name);
    const given: Given = { ...this.loaded.given, key: 'a', ttlMs, token: '', unitMs: how.unitMs, held: result };
    try {
      const said: unknown = await callOf({ it, owner, parameters }, given, true);
      if (isRefusal(said, true)) {
        endNow(held, process);
        return false;
      }
      if (isLike(said, result)) held.result = said;
    } catch (error) {
      endNow(held, process);
      throw error;
    }
    if (held.expiresAt !== undefined && Number.isFinite(held.expiresAt))
      held.expiresAt = calledMs + usable(how.fixedTtlMs ?? ttlMs);
    else if (held.isHeld !== undefined && held.result !== result)
      held.isHeld = this.saidOf(held.result, ttlMs) ?? held.isHeld;
    return true;
  }
}

/** A lock that could not be extended is no longer relied on. */
function endNow(held: HeldByFile, process: ProcessContext): void {
  if (held.expiresAt !== undefined) held.expiresAt = Math.min(held.expiresAt, process.wallMs());
  if (held.isHeld !== undefined) held.isHeld = () => false;
}
