import { type Answer, type Command, type CounterScript, MOST_COUNTER } from '../core/index.js';
import type { Process } from './process.js';
import type { RunContext } from './run-context.js';
import type { TrueTime } from './time.js';

/** No counter, of a node that has lost it or never had one. */
const MISSING = -1;
const NOBODY = 0;

/** What decides how a counter answers: its value, -1 for none, and what tells absences of it from each other. */
export interface CounterState {
  readonly value: number;
  /** The mark of this absence, once somebody has found it; else 0. */
  readonly joining: number;
  /** The greatest mark so far. */
  readonly marks: number;
}

/**
 * The fencing counter of one node, with the meaning that the scripts of `core` have on a real server. Where a process has to
 * copy the counter of others before it counts, what an earlier one left is as good as none.
 */
export class FencingCounter {
  /** The counter that goes with the last answer. */
  told = 0;
  private value = MISSING;
  private first = MISSING;
  /** What tells this absence of a counter from others, once somebody has found it. */
  private joining = NOBODY;
  /** As on a server, where a mark is a time, none can be taken for a counter. */
  private marks = MOST_COUNTER;
  private journal: { readonly at: TrueTime; readonly value: number }[] = [];
  private readonly node: Process;
  private readonly context: RunContext;
  private journaling: boolean;
  private rejoin: CounterScript['rejoin'] = 'copy';

  /** @param journaling - Whether a disk or a replica may have to tell of changes. */
  constructor(node: Process, context: RunContext, journaling: boolean) {
    this.node = node;
    this.context = context;
    this.journaling = journaling;
  }

  /** As a new one. */
  reset(journaling: boolean): void {
    this.told = 0;
    this.value = MISSING;
    this.first = MISSING;
    this.joining = NOBODY;
    this.marks = MOST_COUNTER;
    if (this.journal.length > 0) this.journal = [];
    this.journaling = journaling;
    this.rejoin = 'copy';
  }

  /** From the start of the run on there is a counter, kept as a policy has it. */
  begin({ rejoin }: CounterScript): void {
    this.rejoin = rejoin;
    this.value = 0;
    this.first = 0;
  }

  get state(): CounterState {
    const { value, joining, marks } = this;
    return { value, joining, marks };
  }

  set state({ value, joining, marks }: CounterState) {
    this.value = value;
    this.joining = joining;
    this.marks = marks;
  }

  /** Whether the node knows its counter, and has a say in fencing tokens. */
  get isKnown(): boolean {
    return this.value !== MISSING;
  }

  execute(script: CounterScript, command: Command, now: TrueTime): Answer {
    const { counter, operation, mark } = command;
    if (operation === 'join-counter') {
      if (this.isKnown || this.joining !== mark) return 'no';
      this.set(counter, now);
    } else if (!this.isKnown && script.rejoin !== 'at-once') {
      if (this.joining === NOBODY) this.joining = ++this.marks;
      this.told = this.joining;
      return 'no';
    } else if (operation === 'raise-counter' && (script.raises === 'any' || counter > this.value)) {
      this.set(counter, now);
    }
    this.told = Math.max(0, this.value);
    return 'yes';
  }

  /** A lock was granted: what clients with tokens of the wrong kind get to know then. */
  granted({ countsGrants }: CounterScript, now: TrueTime): void {
    if (countsGrants) this.set(Math.max(0, this.value) + 1, now);
    this.told = Math.max(0, this.value);
  }

  /** All keys are lost while the node runs, or another process takes its place that must not go by them. */
  lose(now: TrueTime): void {
    this.joining = NOBODY;
    if (this.isKnown) this.set(MISSING, now);
  }

  /** A process takes over what was there at `keptUntil`, or at the start, if that was kept: there, or on the master `of` a replica. */
  restore(keptUntil: number, fromStart: boolean, now: TrueTime, of: FencingCounter = this): void {
    if (this.rejoin === 'copy') {
      this.lose(now);
      return;
    }
    this.joining = NOBODY;
    if (keptUntil >= now && of === this) return;
    this.journal = of.journal.filter((entry) => entry.at <= keptUntil);
    const value = this.journal.at(-1)?.value ?? (fromStart ? of.first : MISSING);
    if (value !== this.value) this.set(value, now);
  }

  private set(value: number, now: TrueTime): void {
    // A server reads no counter of more digits than are exact.
    this.value = value > MOST_COUNTER ? MISSING : value;
    this.joining = NOBODY;
    if (this.journaling) this.journal.push({ at: now, value });
    this.context.counterSet(this.node, value);
  }
}
