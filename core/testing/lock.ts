import { lockPolicyOf, type PolicyChange, policyWith } from '../../deviations/index.js';
import type { DrivenLock } from '../drive.js';
import {
  type Answer,
  type AttemptRandomness,
  type Command,
  type DraftState,
  drive,
  type Effect,
  type Environment,
  initialState,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  type LockState,
  localTime,
  members,
  type NodeSet,
  type Operation,
  type Outcome,
  step,
  type Timer,
  type Token,
} from '../index.js';
import type { Step } from '../step.js';

/** A reading of the test's clock, from milliseconds. */
export function ms(value: number): LocalTime {
  return localTime(Math.round(value * 1000));
}

/** A send in the words of a test. */
export interface Sent {
  readonly operation: Operation;
  readonly to: readonly number[];
  readonly attempt: number;
  readonly round: number;
}

/** Freezes a value with everything in it, so that a step which writes to its input throws. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}

/** What a server without a counter answers with, less the sign: the time in µs, more than a counter may be. */
export const MARK = 1_763_812_800_000_000;

/**
 * One lock with its timers, its clock set by hand and its nodes' answers given one by one. Every step of every test
 * goes through {@link send}, which therefore also holds the lock to purity: frozen inputs, the same result by `drive`, and
 * a state that survives JSON.
 */
export class TestLock {
  readonly policy: LockPolicy;
  readonly nodes: number;
  state: LockState = initialState();
  now: LocalTime = ms(0);
  /** What the last call on this object brought about. */
  effects: Effect[] = [];
  /** Timers armed and not cancelled, in ms. */
  readonly armed: Map<Timer, number> = new Map();
  readonly commands: Command[] = [];
  readonly outcomes: Outcome[] = [];
  private chances = 0;

  constructor(change: PolicyChange = {}, nodes = 5) {
    this.policy = deepFreeze(lockPolicyOf(policyWith(change)));
    this.nodes = nodes;
  }

  at(time: number): this {
    this.now = ms(time);
    return this;
  }

  acquire(ttlMs = 10_000, jitterPpm = 500_000): this {
    this.effects = [];
    return this.send({ type: 'acquire', now: this.now, nodes: this.nodes, ttlMs, chance: this.chance(jitterPpm) });
  }

  extend(ttlMs = 10_000): this {
    this.effects = [];
    return this.send({ type: 'extend', now: this.now, ttlMs });
  }

  release(): this {
    this.effects = [];
    return this.send({ type: 'release', now: this.now });
  }

  /** The timer goes off, armed or not. */
  fire(timer: Timer, jitterPpm = 500_000): this {
    this.effects = [];
    this.armed.delete(timer);
    const chance = timer === 'retry' ? this.chance(jitterPpm) : null;
    return this.send({ type: 'timer', now: this.now, timer, chance });
  }

  /** Nodes answer the newest command, or the newest of an operation. */
  yes(...nodes: number[]): this {
    return this.answer(this.newest(), 'yes', ...nodes);
  }

  no(...nodes: number[]): this {
    return this.answer(this.newest(), 'no', ...nodes);
  }

  error(...nodes: number[]): this {
    return this.answer(this.newest(), 'error', ...nodes);
  }

  answer(command: Command, answer: Answer, ...nodes: number[]): this {
    const lacks = answer === 'no' && command.operation.endsWith('-counter');
    return this.tell(command, answer, lacks ? MARK : 0, ...nodes);
  }

  /** Nodes answer the newest command with a yes and their counter. */
  counts(counter: number, ...nodes: number[]): this {
    return this.tell(this.newest(), 'yes', counter, ...nodes);
  }

  private tell(command: Command, answer: Answer, counter: number, ...nodes: number[]): this {
    this.effects = [];
    for (const node of nodes) this.send({ type: 'reply', now: this.now, node, command, answer, counter });
    return this;
  }

  send(event: LockEvent): this {
    const before = deepFreeze(this.state);
    const { state, effects } = step(this.policy, before, deepFreeze(event));
    const again = JSON.stringify(driven(this.policy, JSON.parse(JSON.stringify(before)), event));
    if (again !== JSON.stringify({ state, effects })) throw new Error(`not a function of its input: ${again}`);
    this.state = state;
    for (const effect of effects) this.perform(effect);
    return this;
  }

  /** The newest command of an operation, or of any. */
  newest(operation?: Operation): Command {
    const command = this.commands.findLast((one) => operation === undefined || one.operation === operation);
    if (command === undefined) throw new Error(`no ${operation ?? 'command'} was sent`);
    return command;
  }

  get phase(): LockState['phase'] {
    return this.state.phase;
  }

  get outcome(): Outcome | undefined {
    return this.outcomes.at(-1);
  }

  /** What the last call sent. */
  get sent(): Sent[] {
    return this.effects
      .filter((effect) => effect.type === 'send')
      .map(({ to, command }) => ({
        operation: command.operation,
        to: members(to),
        attempt: command.attempt,
        round: command.round,
      }));
  }

  /** What the last call reported. */
  get reported(): string[] {
    return this.effects.filter((effect) => effect.type === 'report').map(({ outcome }) => outcome.type);
  }

  votes(): { granted: number[]; refused: number[]; failed: number[] } {
    const list = (set: NodeSet): number[] => members(set);
    return {
      granted: list(this.state.votes.yes),
      refused: list(this.state.votes.no),
      failed: list(this.state.votes.failed),
    };
  }

  private chance(jitterPpm: number): AttemptRandomness {
    return { token: `token-${this.chances++}` as Token, jitterPpm };
  }

  private perform(effect: Effect): void {
    this.effects.push(effect);
    if (effect.type === 'send') this.commands.push(effect.command);
    else if (effect.type === 'arm') this.armed.set(effect.timer, effect.at / 1000);
    else if (effect.type === 'cancel') this.armed.delete(effect.timer);
    else this.outcomes.push(effect.outcome);
  }
}

/** What comes of an event where the state is written to, and the effects are carried out. */
function driven(policy: LockPolicy, state: DraftState, event: LockEvent): Step {
  const effects: Effect[] = [];
  const environment: Environment<DrivenLock> = {
    policy,
    draw: () => {
      throw new Error('a step draws nothing');
    },
    send: (_, to, command) => effects.push({ type: 'send', to, command }),
    arm: (_, timer, at) => effects.push({ type: 'arm', timer, at }),
    cancel: (_, timer) => effects.push({ type: 'cancel', timer }),
    report: (_, outcome) => effects.push({ type: 'report', outcome }),
  };
  drive(environment, { state }, event);
  return { state, effects };
}

/** A lock acquired at 2 ms with the votes of nodes 0, 1 and 2, those of 3 and 4 still on their way. */
export function heldLock(change: PolicyChange = {}, ttlMs = 10_000): TestLock {
  return new TestLock(change).acquire(ttlMs).at(2).yes(0, 1, 2);
}
