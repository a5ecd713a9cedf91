import { randomUUID } from 'node:crypto';
import { current, type ProcessContext } from '../guests/host/owner.js';
import type { LockUnderTest, MakeLock } from '../guests/lock-under-test.js';
import type { NodeAddress } from '../guests/net/addresses.js';
import { argumentsFor, type Given } from './arguments.js';
import type { ClientMaker } from './clients.js';
import { environmentFor, placesFor } from './environment.js';
import { answerOf, beliefOf, isLike, isRefusal, releaserIn } from './held.js';
import { type Step, saysWhether, type Understood } from './plan.js';
import { type Exports, exportsOf, insideOf, type Program } from './program.js';
import { namesResource, roleOf } from './roles.js';
import { type Callable, type Make, Shapes } from './surface.js';
import { type Trial, usable, type Wire } from './wire.js';

/** What is needed to run the file of a lock in simulated processes. */
export interface Bench {
  readonly program: Program;
  readonly wire: Wire;
  readonly clients: ClientMaker;
}

/** What one process has of the file. */
interface Loaded {
  readonly exports: Exports;
  readonly shapes: Shapes;
  readonly given: Omit<Given, 'key' | 'ttlMs' | 'token' | 'unitMs'>;
}

/** What an acquisition has given, and how to give it back. */
export interface HeldByFile {
  readonly trial: Trial;
  /** What the file's own function returned, or handed to the work; what an extension returned takes its place. */
  result: unknown;
  /** The TTL that was asked for, ms. */
  readonly ttlMs: number;
  /** What the function that acquired is a method of, or is found beside. */
  readonly owner: unknown;
  /** Ends the work: with an error, it throws. */
  leave(error?: Error): Promise<unknown>;
  readonly signal?: AbortSignal;
  expiresAt?: number;
  isHeld?: () => boolean;
}

/** Loads the file in the process that is current. */
export async function loadIn(bench: Bench, addresses: readonly NodeAddress[]): Promise<Loaded> {
  const { program, clients } = bench;
  const exports = await program.evaluate();
  let made: unknown[] | null = null;
  const all = (): readonly unknown[] => {
    made ??= addresses.map((it) => clients.make(it, addresses.length));
    return made;
  };
  const isRest = clients.kind === 'upstash';
  const urls = addresses.map(({ url, restUrl }) => (isRest ? restUrl : url));
  const places = isRest ? urls : placesFor(program.sources, addresses);
  return { exports, shapes: new Shapes(program), given: { clients: all, urls, places, library: clients.library } };
}

/** A file that does its work as it is loaded has this long for it, ms of simulated time. */
const SCRIPT_MS = 15_000;

/** Within this clients are connected, ms of simulated time. */
const CONNECTING_MS = 100;

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Makes the lock of a file, as `plan` says that it is used. */
export function lockMaker(bench: Bench, how: Understood): MakeLock {
  return async ({ addresses }) => {
    const process = current.owner;
    if (process === null) throw new Error('a lock is made outside of its process');
    const own = addresses.slice(0, how.nodes) as [NodeAddress, ...NodeAddress[]];
    if (how.isOpen && how.nodes > 1)
      Object.assign(globalThis.process.env, environmentFor(bench.program.sources, own.length));
    const loaded = await loadIn(bench, own);
    const user = new LockUser(bench, how, loaded, process);
    await user.prepare();
    const lock: LockUnderTest = {
      acquire: (resource, ttlMs) => user.acquire(resource, ttlMs),
      release: (held) => (held as HeldByFile).leave(),
    };
    if (how.plan.use === 'pair' && user.canExtend)
      lock.extend = (held, ttlMs) => user.extend(held as HeldByFile, ttlMs);
    return lock;
  };
}

/** Goes from the exports of a file to what a path leads to. */
export async function follow(loaded: Loaded, path: readonly Step[], given: Given): Promise<unknown> {
  let at: unknown = loaded.exports;
  let owner: unknown;
  for (const { kind, name } of path) {
    const before: unknown = at;
    if (kind === 'export') at = exportsOf(loaded.exports).get(name);
    else if (kind === 'inside') at = insideOf(loaded.exports)[name];
    else if (kind === 'member') at = (at as Readonly<Record<string, unknown>>)[name];
    else {
      const callable = at as Callable;
      const values = argumentsFor(loaded.shapes.of(callable, name).parameters, given);
      at = kind === 'new' ? Reflect.construct(callable, values) : await callable.apply(owner, values);
    }
    owner = before;
  }
  return at;
}

const EXTENSIONS = ['extend', 'renew', 'refresh', 'prolong', 'touch'];

/** How often it is looked whether a campaign has been won. */
const MOST_LOOKS = 200;

/** The least that a lock may be held for, ms. */
const LEAST_MS = 0.001;

class LockUser {
  private readonly bench: Bench;
  private readonly how: Understood;
  private readonly loaded: Loaded;
  private readonly process: ProcessContext;
  /** Made once, unless it is made for a key. */
  private target: unknown;
  private isMade = false;

  constructor(bench: Bench, how: Understood, loaded: Loaded, process: ProcessContext) {
    this.bench = bench;
    this.how = how;
    this.loaded = loaded;
    this.process = process;
  }

  get canExtend(): boolean {
    return this.how.plan.extend !== null || this.how.plan.give === null;
  }

  private async targetFor(given: Given): Promise<unknown> {
    const { path } = this.how.plan;
    if (this.isMade) return this.target;
    const target = await follow(this.loaded, path, given);
    this.target = target;
    this.isMade = !path.some(({ kind }) => kind === 'new' || kind === 'call') || !(await this.takesKey(path, given));
    return target;
  }

  /** A client that refuses what it is asked for before it is connected is made as its process begins. */
  async prepare(): Promise<void> {
    const { sources } = this.bench.program;
    if (!sources.some(({ text }) => /\bdisableOfflineQueue:\s*true|\benableOfflineQueue:\s*false/.test(text))) return;
    await this.targetFor({
      ...this.loaded.given,
      key: 'a',
      ttlMs: 1_000,
      token: randomUUID(),
      unitMs: this.how.unitMs,
      isBare: this.how.isBare,
    });
    await later(CONNECTING_MS);
  }

  private async takesKey(path: readonly Step[], given: Given): Promise<boolean> {
    for (const [i, { kind, name }] of path.entries()) {
      if (kind !== 'new' && kind !== 'call') continue;
      const callable = (await follow(this.loaded, path.slice(0, i), given)) as Callable;
      if (this.loaded.shapes.of(callable, name).parameters.some(namesResource)) return true;
    }
    return false;
  }

  async acquire(key: string, ttlMs: number): Promise<HeldByFile | null> {
    const { how, loaded, process } = this;
    const { plan } = how;
    const base: Given = { ...loaded.given, key, ttlMs, token: randomUUID(), unitMs: how.unitMs, isBare: how.isBare };
    const isOwnWork = plan.use === 'handler' || plan.use === 'script';
    const trial = this.bench.wire.begin(process, Math.floor(how.nodes / 2) + 1, isOwnWork);
    if (plan.use === 'script') {
      // What it has begun as it was loaded goes on.
      const loading = loadIn(this.bench, []).then(() => later(SCRIPT_MS));
      return this.worksItself(trial, loading);
    }
    const target = await this.targetFor(base);
    const taker = (plan.take === '' ? target : (target as Readonly<Record<string, unknown>>)[plan.take]) as Callable;
    const shownName =
      plan.take ||
      plan.path.findLast(({ kind }) => kind === 'export' || kind === 'inside' || kind === 'member')?.name ||
      '';
    const { parameters } = loaded.shapes.of(taker, shownName);
    base.named = parameters.map(({ name }) => name);
    const call = (given: Given): unknown =>
      taker.apply(plan.take === '' ? undefined : target, argumentsFor(parameters, { ...given, isAcquiring: true }));
    const type = parameters.find((it) => roleOf(it) === 'work')?.type ?? '';
    if (plan.use === 'with') return this.runsWork(trial, base, call, type);
    if (isOwnWork) return this.worksItself(trial, (async () => call(base))());
    const owner: unknown = plan.take === '' ? this.besides : target;
    const result: unknown = await call(base);
    if (isRefusal(result, how.voidHolds)) return null;
    if (how.campaigns) {
      // Each campaign is one of its own.
      this.isMade = false;
      if (!(await this.isElected(owner, how.fixedTtlMs ?? ttlMs))) {
        await this.giveBack(target, result, base);
        return null;
      }
      return this.held(trial, ttlMs, result, (error) => this.giveBack(target, result, base, error), undefined, owner);
    }
    if (saysWhether(how) && !this.saysSo(owner, owner)) return null;
    const held = this.held(trial, ttlMs, result, (error) => this.giveBack(target, held.result, base, error));
    return held;
  }

  /** Waits until a campaign has been won; for no longer than it takes for a lock that was left behind to end. */
  private async isElected(owner: unknown, ttlMs: number): Promise<boolean> {
    for (let i = 0; i < MOST_LOOKS; i++) {
      if (this.saysSo(owner, owner)) return true;
      await later(Math.max(1, (2 * ttlMs) / MOST_LOOKS));
    }
    return false;
  }

  private saysSo(result: unknown, owner: unknown): boolean {
    const { sign } = this.how;
    return sign !== null && answerOf(sign.of === 'owner' ? owner : result, sign.name) === sign.whenHeld;
  }

  /** The lock is handed work, and holds while that is done. */
  private async runsWork(
    trial: Trial,
    base: Given,
    call: (given: Given) => unknown,
    type: string,
  ): Promise<HeldByFile | null> {
    let leave: (error?: Error) => void = () => {};
    let enter: (given: readonly unknown[]) => void = () => {};
    const entered = new Promise<readonly unknown[]>((resolve) => {
      enter = resolve;
    });
    const work = (...given: readonly unknown[]): Promise<unknown> => {
      enter(given);
      return new Promise((resolve, reject) => {
        leave = (error) => (error === undefined ? resolve(resultFor(type)) : reject(error));
      });
    };
    const done = (async () => {
      const result = await call({ ...base, work });
      // A wrapper gives a function that does the work.
      if (typeof result !== 'function') return result;
      const { parameters } = this.loaded.shapes.of(result as Callable, '');
      return await (result as Callable)(...argumentsFor(parameters, base));
    })();
    done.catch(() => {});
    const given = await Promise.race([entered, done.then(() => null)]);
    if (given === null) return null;
    const signal = given
      .map((it) => (it instanceof AbortSignal ? it : (it as { signal?: unknown } | null)?.signal))
      .find((it) => it instanceof AbortSignal);
    return this.held(
      trial,
      base.ttlMs,
      given[0],
      async (error) => {
        leave(error);
        return done;
      },
      signal,
    );
  }

  /** The function does its own work; what it sends at the end of it is kept back until that is over. */
  private async worksItself(trial: Trial, done: Promise<unknown>): Promise<HeldByFile | null> {
    done.catch(() => {});
    const isGranted = await Promise.race([trial.granted.then(() => true), done.then(() => trial.isGranted)]);
    if (!isGranted) {
      trial.letGo();
      return null;
    }
    return this.held(trial, 0, undefined, async () => {
      trial.letGo();
      return done;
    });
  }

  private held(
    trial: Trial,
    ttlMs: number,
    result: unknown,
    leave: HeldByFile['leave'],
    signal?: AbortSignal,
    owner: unknown = this.besides,
  ): HeldByFile {
    const { how, process } = this;
    const held: HeldByFile = { trial, result, ttlMs, owner, leave, ...(signal === undefined ? {} : { signal }) };
    const nowMs = process.wallMs();
    trial.isHeld = true;
    // Who hears of its lock when that is over cannot work under it.
    const isOver = how.nodes === 1 && trial.isGranted && trial.reliableUntil(nowMs, ttlMs) <= nowMs;
    const asks = (how.renews && !isOver) || how.nodes > 1;
    const named = asks && signal === undefined ? beliefOf(result, this.besides, process, how.renews) : null;
    const isSaid = how.campaigns || (asks && how.sign !== null && signal === undefined);
    const says = named ?? (isSaid ? () => this.saysSo(held.result, owner) : null);
    if (says !== null) {
      held.isHeld = says;
      return held;
    }
    if (how.renews && !isOver) {
      if (signal === undefined) held.expiresAt = Number.POSITIVE_INFINITY;
      return held;
    }
    if (how.nodes > 1 && signal !== undefined) return held;
    held.expiresAt = trial.reliableUntil(nowMs, how.fixedTtlMs ?? ttlMs);
    // What is left may be less than the allowance made here, and more than the lock's own.
    if (how.nodes > 1 && held.expiresAt <= nowMs && trial.endMs > nowMs) held.expiresAt = nowMs + LEAST_MS;
    return held;
  }

  private async giveBack(target: unknown, result: unknown, base: Given, error?: Error): Promise<unknown> {
    const { plan } = this.how;
    const given: Given = { ...base, held: result };
    if (error !== undefined) return undefined;
    const own = releaserIn(result);
    if (own !== null) return own.call(result);
    if (plan.give === null) return undefined;
    const giver = this.functionBeside(target, plan.give);
    const { parameters } = this.loaded.shapes.of(giver, plan.give);
    return giver.apply(plan.take === '' ? undefined : target, argumentsFor(parameters, given, true));
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

  /** Extends a lock by what it was acquired for, or more: by less, nobody extends. What fails, nobody relies on. */
  async extend(held: HeldByFile, askedMs: number): Promise<boolean | undefined> {
    const { how, process } = this;
    const ttlMs = Math.max(askedMs, held.ttlMs);
    const { result } = held;
    const calledMs = process.wallMs();
    const own =
      typeof result === 'object' && result !== null
        ? EXTENSIONS.find((name) => typeof Reflect.get(result, name) === 'function')
        : undefined;
    const target: unknown = own !== undefined ? result : this.target;
    const name = own ?? how.plan.extend;
    if (name === null || name === undefined) return undefined;
    const extend =
      own !== undefined ? (Reflect.get(result as object, own) as Callable) : this.functionBeside(target, name);
    const { parameters } = this.loaded.shapes.of(extend, name);
    const given: Given = { ...this.loaded.given, key: 'a', ttlMs, token: '', unitMs: how.unitMs, held: result };
    try {
      const said: unknown = await extend.apply(target, argumentsFor(parameters, given, true));
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
      held.isHeld = beliefOf(held.result, this.besides, process, how.renews) ?? held.isHeld;
    return true;
  }
}

/** What the work returns, as its type wants it: some text where that says nothing. */
function resultFor(type: string): unknown {
  const [, kind] = /=>\s*(?:Promise(?:Like)?<\s*)?(\w+)/.exec(type) ?? [];
  return kind === 'number' ? 1 : kind === 'boolean' ? true : kind === 'void' ? undefined : 'done';
}

/** A lock that could not be extended is no longer relied on. */
function endNow(held: HeldByFile, process: ProcessContext): void {
  if (held.expiresAt !== undefined) held.expiresAt = Math.min(held.expiresAt, process.wallMs());
  if (held.isHeld !== undefined) held.isHeld = () => false;
}

/** What a function or a class makes, for looking at it. */
export function makeFor(loaded: Loaded, given: Given): Make {
  return async (value, { kind, name }, owner) => {
    const values = argumentsFor(loaded.shapes.of(value, name).parameters, given);
    return kind === 'new' ? Reflect.construct(value, values) : value.apply(owner, values);
  };
}
