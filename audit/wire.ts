import { AsyncLocalStorage } from 'node:async_hooks';
import type { Answer } from '../core/index.js';
import type { Meaning } from '../libraries/redis/meaning.js';
import type { ProcessContext } from '../libraries/runtime/owner.js';
import type { Asked, SentCommands, Tap } from '../libraries/tap.js';
import { asCounted, isAdded, isUnconditional, readCommand, type Said } from './said.js';
import { Trial } from './trial.js';

/** A script that sets a key or extends it offers a value for as long as it has not got the key. */
function asOffer(meaning: Meaning, { isGranted }: Trial): Meaning {
  const { operation, script } = meaning;
  return operation === 'extend' && script?.sets && !isGranted ? { ...meaning, operation: 'acquire' } : meaning;
}

/** The values that a process has offered. */
interface Offers {
  /** For which acquisition each was offered last. */
  readonly latest: Map<string, object>;
  readonly locks: Map<object, Offered>;
}

/** Of an acquisition: whether a value was offered for it that its process had not offered before, and one of an earlier one. */
interface Offered {
  readonly isFirst: boolean;
  own: boolean;
  earlier: boolean;
}

/** Listens to all processes of all runs. */
export class Wire implements Tap {
  /** All of each process: the work of an earlier one may still store its data. */
  private readonly trials = new WeakMap<ProcessContext, Trial[]>();
  private readonly byLock = new WeakMap<object, Trial>();
  private readonly calls = new AsyncLocalStorage<{ trial: Trial | null; readonly process: ProcessContext | null }>();
  /** Over which connection commands go out. */
  private readonly connections = new WeakMap<object, object>();
  valuesDiffer = false;
  /** What each process has offered; `null` where no more is noted. */
  private offers: WeakMap<ProcessContext, Offers> | null = new WeakMap();
  private readonly offered: Offered[] = [];
  /** Calls of one process are told apart: their clients are connected before the first. */
  tellsApart = false;
  /** Receives how long each timer takes that a process sets, ms. */
  timed: ((delayMs: number) => void) | null = null;
  /** Nothing is kept back. */
  naturally = false;
  /** What adds one to those who have a key acquires. */
  counts = false;
  /** What sets a key whether or not that is there sets another key than that of the lock. */
  setsBefore = false;
  /** How many nodes have to grant a lock of which it is not known yet how many there are. */
  neededAtFirst: number | null = null;

  begin(process: ProcessContext, needed: number, keepsBack: boolean): Trial {
    const trial = new Trial(this.neededAtFirst ?? needed);
    if (keepsBack && !this.naturally) trial.kept = { connections: new Set(), sends: [] };
    this.trials.set(process, [...(this.trials.get(process) ?? []), trial]);
    const call = this.calls.getStore();
    if (call?.process === process) call.trial ??= trial;
    if (process.task) this.byLock.set(process.task, trial);
    return trial;
  }

  /** Makes a call of a process: where it may have others under way, what it awaits is told from what they do. */
  apart<T>(process: ProcessContext | null, call: () => T): T {
    return this.tellsApart ? this.calls.run({ trial: null, process }, call) : call();
  }

  /** A rehearsal is over: what the next one tells, it says itself. */
  reset(): void {
    this.naturally = false;
    this.tellsApart = false;
    this.timed = null;
    // Each promise costs more while it is on.
    this.calls.disable();
  }

  timer(_: ProcessContext, delayMs: number): void {
    this.timed?.(delayMs);
  }

  /** That of the call that is under way, where calls are told apart. */
  private ofCall(process: ProcessContext): Trial | null {
    const call = this.calls.getStore();
    return call?.process === process ? call.trial : null;
  }

  /** The acquisition of the call that is under way, where calls are told apart; else the latest of the process. */
  trialOf(process: ProcessContext): Trial | null {
    return this.ofCall(process) ?? this.trials.get(process)?.at(-1) ?? null;
  }

  private of(process: ProcessContext, lock: object | null): Trial | null {
    return this.ofCall(process) ?? (lock === null ? undefined : this.byLock.get(lock)) ?? this.trialOf(process);
  }

  sent({ process, lock, node, commands, meaning }: SentCommands): void {
    const trial = this.of(process, lock);
    if (trial === null) return;
    this.noteOffer(process, lock, meaning);
    const about = commands.find((it) => it.length > 1);
    const inMulti = commands.some(([verb = '']) => /^multi$/i.test(verb));
    for (const words of commands) {
      if (/^quit$/i.test(words[0] ?? '')) trial.closes();
      if (words.length < 2) continue;
      const plain =
        words === about ? asOffer(meaning, trial) : { ...meaning, operation: 'read-counter' as const, value: null };
      const said = readCommand(words, plain, node, process.wallMs());
      if (inMulti && isAdded(said)) trial.adds.add(node);
      const meant = this.asMeant(said);
      trial.heard(inMulti ? { ...meant, inMulti } : meant, this.connections.get(commands));
    }
  }

  private noteOffer(process: ProcessContext, lock: object | null, { operation, value }: Meaning): void {
    if (this.offers === null || operation !== 'acquire' || value === null || lock === null) return;
    const { latest, locks } = this.offers.get(process) ?? { latest: new Map(), locks: new Map() };
    this.offers.set(process, { latest, locks });
    const known = latest.get(value);
    const of = locks.get(lock) ?? { isFirst: locks.size === 0, own: false, earlier: false };
    if (!locks.has(lock)) this.offered.push(of);
    if (known === undefined) of.own = true;
    else if (known !== lock) of.earlier = true;
    locks.set(lock, of);
    latest.set(value, lock);
  }

  /**
   * Rehearsals are over: what they have shown of values is known from now on. A lock for which a value of its own is offered as well as
   * that of an earlier one has its own: what an earlier one has begun goes on.
   */
  knowValues(): void {
    this.offers = null;
    const isOwn = this.offered.some((it) => it.own && !it.isFirst);
    this.valuesDiffer = isOwn && !this.offered.some((it) => it.earlier && !it.own);
    this.offered.length = 0;
  }

  isAside(words: readonly string[], meaning: Meaning, process: ProcessContext): boolean {
    const call = this.ofCall(process);
    const trials = call === null ? (this.trials.get(process) ?? []) : [call];
    return this.isBefore(words) || trials.some((it) => it.hasBeside(words, meaning));
  }

  private isBefore(words: readonly string[]): boolean {
    return this.setsBefore && isUnconditional(words);
  }

  private asMeant(said: Said): Said {
    if (this.counts) return asCounted(said);
    return this.isBefore(said.words) ? { ...said, operation: 'read-counter' } : said;
  }

  answered({ process, lock, node }: Asked, operation: Said['operation'], answer: Answer): void {
    const isCounted = this.counts && operation === 'read-counter';
    const trial = this.of(process, lock);
    // The first reply of a transaction may be how many were removed, and none is no refusal of who adds itself after that.
    const adds = isCounted && trial?.adds.delete(node) === true;
    const told = adds && answer === 'no' ? 'yes' : answer;
    trial?.answered(node, isCounted ? 'acquire' : operation, told, process.wallMs());
  }

  keeps(
    process: ProcessContext,
    connection: object,
    commands: readonly (readonly string[])[],
    send: () => void,
  ): boolean {
    this.connections.set(commands, connection);
    const trial = this.trialOf(process);
    if (trial?.isGranted !== true || trial.key === null) return false;
    const isAbout = commands.some((words) => words.slice(1).includes(trial.key ?? ''));
    const isExtension = commands.some(([verb = '']) => /^p?expire$/i.test(verb));
    if (isAbout && !isExtension && Number.isNaN(trial.endedMs)) {
      trial.endedMs = process.wallMs();
      trial.onEnd?.();
    }
    const { kept } = trial;
    if (kept === null) return false;
    if (!kept.connections.has(connection) && (!isAbout || isExtension)) return false;
    kept.connections.add(connection);
    kept.sends.push(send);
    return true;
  }
}
