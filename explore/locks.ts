import {
  type Effect,
  initialState,
  isFencing,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  type LockState,
  localTime,
  members,
  type NodeSet,
  type Operation,
  type Phase,
  type Step,
  size,
  step,
  type Timer,
  type Token,
} from '../core/index.js';
import { deviates, lockPolicyOf, type Policy } from '../deviations/index.js';
import { type ExploreScope, TICK_US } from './bounds.js';
import { canonicalLock, lockKey, mapNodeSets, rolesOf, withoutNode } from './canonical-lock.js';
import { Interner, Memo } from './interner.js';
import { type Commands, retoldToken } from './links.js';

/** The timers of a lock, in the order of their places in a state. */
export const TIMERS: readonly Timer[] = ['attempt', 'extension', 'release', 'retry', 'expiry', 'auto-extend'];

/** Not armed. */
export const UNARMED = 1_000_000;

/** A client as a process sees itself: its lock and its timers, all times counted from its own clock's reading. */
export interface Local {
  readonly lock: LockState;
  /** By the order of {@link TIMERS}: ticks from now, 0 when due, {@link UNARMED}. */
  readonly timers: readonly number[];
  readonly paused: boolean;
  /** How many nodes it is told of. */
  readonly nodes: number;
}

/** A command that a step sends, and to which of the nodes that the client is told of. */
interface Send {
  readonly node: number;
  readonly command: number;
}

/** What can happen to a client, as one number each. Replies follow from {@link REPLIES} on. */
export const CALL = 0;

/** The input of a lock that is released. */
export const RELEASE = 1;

/** The input of a lock that is to be extended. */
export const EXTEND = 2;

/** The input of a lock whose process is frozen. */
export const PAUSE = 3;

/** The input of a lock whose process wakes up. */
export const RESUME = 4;
const FIRST_TIMER = 5;
const REPLIES = FIRST_TIMER + TIMERS.length;

const NO_SENDS: readonly Send[] = [];

/**
 * What a client can be like, by number, and what an event makes of it. Each distinct pair of client and event is one
 * call of the lock that runs in production; all further ones are looked up.
 */
export class Locks {
  private readonly locals = new Interner<Local>('client states', 65_535);
  private readonly bounds: ExploreScope;
  private readonly policy: Policy;
  private readonly commands: Commands;
  private readonly next = new Memo();
  private readonly sendsOf: (readonly Send[])[] = [NO_SENDS];
  private readonly sent = new Memo();
  private readonly ticked = new Memo();
  private readonly permuted = new Memo();
  private readonly settledOf = new Memo();
  private readonly tooLate = new Memo();
  /** By client state: its token while it believes that it holds the lock, the timer that is due, and what it may do. */
  readonly believes: number[] = [];
  readonly due: number[] = [];
  /** Whether it may believe so in future, whatever happens, and whether it may come to. */
  readonly hopes: boolean[] = [];
  readonly tries: boolean[] = [];
  /** Equal for clients that differ in the names of nodes only, and what each node is to it. */
  readonly shapes: number[] = [];
  readonly roles: (readonly number[])[] = [];
  private readonly shapeIds = new Interner<null>('client shapes', 65_535);

  constructor(bounds: ExploreScope, policy: Policy, commands: Commands) {
    this.bounds = bounds;
    this.policy = policy;
    this.commands = commands;
    this.initial(bounds.nodes);
  }

  /** A client that has asked for nothing yet, and is told of so many nodes. */
  initial(nodes: number): number {
    return this.idOf({ lock: initialState(), timers: TIMERS.map(() => UNARMED), paused: false, nodes });
  }

  at(id: number): Local {
    return this.locals.at(id);
  }

  /** All that were met, in the order of their numbers. */
  get values(): readonly Local[] {
    return this.locals.values;
  }

  timerEvent(timer: number): number {
    return FIRST_TIMER + timer;
  }

  replyEvent(node: number, reply: number): number {
    return REPLIES + reply * this.bounds.nodes + node;
  }

  /** The client after an event. */
  after(id: number, event: number): number {
    const known = this.next.get(id, event);
    if (known >= 0) return known;
    const { local, sends, tooLate } = react(this.policy, this.bounds, this.commands, this.at(id), event);
    if (tooLate) this.tooLate.set(id, event, 1);
    if (sends.length === 0) this.sent.set(id, event, 0);
    else this.sent.set(id, event, this.sendsOf.push(sends) - 1);
    return this.next.set(id, event, this.idOf(local));
  }

  /** What it sends on that event. Only after {@link after}. */
  sends(id: number, event: number): readonly Send[] {
    return this.sendsOf[this.sent.get(id, event)] ?? NO_SENDS;
  }

  /** After this many ticks of its own clock. */
  ticks(id: number, ticks: number): number {
    const known = this.ticked.get(id, ticks);
    if (known >= 0) return known;
    return this.ticked.set(id, ticks, this.idOf(older(this.policy, this.bounds, this.at(id), ticks)));
  }

  /** Whether an answer that arrives changes nothing, now and whatever else happens before it arrives. */
  isStale(id: number, node: number, reply: number): boolean {
    const { lock, paused } = this.at(id);
    if (paused) return false;
    const event = this.replyEvent(node, reply);
    if (this.after(id, event) !== id || this.sends(id, event).length > 0) return false;
    const { command, answer } = this.commands.reply(reply);
    const { attempt, operation, round } = this.commands.at(command);
    if (attempt < lock.attempt.number) return true;
    switch (operation) {
      case 'acquire': {
        // A late yes is looked at again by who fails or releases.
        const forgotten = answer !== 'yes' || (lock.phase === 'held' && !this.bounds.releases);
        return lock.phase !== 'acquiring' && forgotten;
      }
      case 'extend':
        // A late yes of a healing one is looked at again by who releases.
        if (answer === 'yes' && this.bounds.releases && deviates(this.policy, 'extension-heals')) return false;
        return !(lock.extension.isOpen && round === lock.extension.number);
      case 'read-counter':
      case 'raise-counter':
        // While a token is asked for, answers to the round in hand count, and nodes without a counter are noted.
        return !isFencing(lock) || (round < lock.counters.round && answer === 'yes');
      case 'join-counter':
        return true;
      default:
        return false;
    }
  }

  /** The same with nodes renumbered by the permutation `to`, whose own number is `index`. */
  renamed(id: number, index: number, to: readonly number[]): number {
    const known = this.permuted.get(id, index);
    if (known >= 0) return known;
    const local = this.at(id);
    return this.permuted.set(id, index, this.idOf({ ...local, lock: permute(local.lock, to) }));
  }

  /** The same without what it knows of a node from which it cannot hear any more; see {@link withoutNode}. */
  settled(id: number, node: number): number {
    const known = this.settledOf.get(id, node);
    if (known >= 0) return known;
    const local = this.at(id);
    return this.settledOf.set(id, node, this.idOf({ ...local, lock: withoutNode(local.lock, node) }));
  }

  /** The same with its attempts renumbered: `to[attempt]` is the new number. */
  retold(id: number, to: readonly number[]): number {
    const local = this.at(id);
    const { lock } = local;
    const { number, token: old } = lock.attempt;
    const token = old === null ? null : (retoldToken(Number(old), to) as Token);
    const attempt = { ...lock.attempt, number: to[number] ?? number, token };
    return this.idOf({ ...local, lock: { ...lock, attempt } });
  }

  /** The counter of the fencing token that the client claims with on this event; -1 if it claims nothing. Only after {@link after}. */
  claimed(id: number, event: number): number {
    const { lock } = this.at(this.after(id, event));
    return lock.phase === 'held' && isTrying(this.at(id).lock) ? lock.counters.counter : -1;
  }

  /** Whether the client claims on this event what is over already. Only after {@link after}. */
  isTooLate(id: number, event: number): boolean {
    return this.tooLate.get(id, event) === 1;
  }

  idOf(local: Local): number {
    const { lock, timers, paused, nodes } = local;
    const of = `${nodes === this.bounds.nodes ? '' : `${nodes} `}${paused ? 'p' : ''}${timers.join()}`;
    const id = this.locals.intern(`${of} ${lockKey(lock)}`, local);
    if (id === this.believes.length) {
      const held = lock.phase === 'held' && lock.hold.deadline > 0;
      this.believes.push(held ? Number(lock.attempt.token) : 0);
      this.due.push(paused ? -1 : timers.indexOf(0));
      this.hopes.push(mayHold(this.policy, lock));
      this.tries.push(isTrying(lock));
      const roles = Array.from({ length: this.bounds.nodes }, (_, node) => rolesOf(lock, node));
      this.roles.push(roles);
      const marks = [...lock.counters.marks].sort((a, b) => a - b);
      const counted = { ...lock, counters: { ...lock.counters, marks } };
      const nameless = lockKey(mapNodeSets(counted, (set) => size(set) as NodeSet));
      this.shapes.push(this.shapeIds.intern(`${of} ${nameless}`, null));
    }
    return id;
  }
}

/** What an event makes of a client. */
interface Reaction {
  readonly local: Local;
  readonly sends: readonly Send[];
  /** It claims the lock although nothing is left of the claim. */
  readonly tooLate: boolean;
}

/** What happens to a client on an event, unremembered: the production lock's step, carried out. */
function react(policy: Policy, bounds: ExploreScope, commands: Commands, local: Local, event: number): Reaction {
  if (event === PAUSE || event === RESUME) {
    return { local: { ...local, paused: event === PAUSE }, sends: NO_SENDS, tooLate: false };
  }
  const timers = [...local.timers];
  const happened = eventOf(bounds, commands, local, event);
  if (happened.type === 'timer') timers[TIMERS.indexOf(happened.timer)] = UNARMED;
  const { state, effects } = stepWithin(bounds, lockPolicyOf(policy), local.lock, happened);
  const sends: Send[] = [];
  for (const effect of effects) carryOut(effect, timers, sends, commands);
  const tooLate = isTrying(local.lock) && state.phase === 'held' && state.hold.deadline <= 0;
  return { local: { ...local, lock: canonicalLock(policy, bounds, state), timers }, sends, tooLate };
}

/**
 * A step of the production lock. Where votes are granted and time does not pass, an acquisition has its votes at once,
 * nothing is sent that is not about counters, and no timer is armed.
 */
export function stepWithin({ votes }: ExploreScope, policy: LockPolicy, lock: LockState, event: LockEvent): Step {
  let { state, effects } = step(policy, lock, event);
  if (votes === 'asked') return { state, effects };
  const asked = effects.find((effect) => effect.type === 'send');
  if (event.type === 'acquire' && asked !== undefined) {
    for (const node of members(asked.to)) {
      const reply = { type: 'reply', now: event.now, node, command: asked.command, answer: 'yes', counter: 0 } as const;
      if (state.phase === 'acquiring') ({ state, effects } = step(policy, state, reply));
    }
  }
  return { state, effects: effects.filter((it) => it.type === 'send' && ABOUT_COUNTER.has(it.command.operation)) };
}

const ABOUT_COUNTER: ReadonlySet<Operation> = new Set(['read-counter', 'raise-counter', 'join-counter']);

function carryOut(effect: Effect, timers: number[], sends: Send[], commands: Commands): void {
  switch (effect.type) {
    case 'send':
      for (const node of members(effect.to)) sends.push({ node, command: commands.idOf(effect.command) });
      break;
    case 'arm':
      timers[TIMERS.indexOf(effect.timer)] = Math.max(0, Math.ceil(effect.at / TICK_US));
      break;
    case 'cancel':
      timers[TIMERS.indexOf(effect.timer)] = UNARMED;
      break;
    case 'report':
      break;
  }
}

/** An event in the words of the lock. Its clock always shows 0. */
function eventOf(bounds: ExploreScope, commands: Commands, { lock, nodes }: Local, event: number): LockEvent {
  const now = localTime(0);
  const chance = (attempt: number) => ({ token: (attempt + 1) as Token, jitterPpm: 0 });
  if (event === CALL) return { type: 'acquire', now, nodes, ttlMs: bounds.ttl, chance: chance(0) };
  if (event === RELEASE) return { type: 'release', now };
  if (event === EXTEND) return { type: 'extend', now, ttlMs: bounds.ttl };
  if (event >= REPLIES) {
    const reply = commands.reply(Math.floor((event - REPLIES) / bounds.nodes));
    const node = (event - REPLIES) % bounds.nodes;
    return { type: 'reply', now, node, ...reply, command: commands.at(reply.command) };
  }
  const timer = TIMERS[event - FIRST_TIMER];
  if (timer === undefined) throw new RangeError(`${event} is no event`);
  return { type: 'timer', now, timer, chance: timer === 'retry' ? chance(lock.attempt.number + 1) : null };
}

/** The same client, `ticks` later by its clock. */
function older(policy: Policy, bounds: ExploreScope, local: Local, ticks: number): Local {
  const { lock } = local;
  const by = (at: LocalTime): LocalTime => localTime(at - ticks * TICK_US);
  const aged: LockState = {
    ...lock,
    calledAt: by(lock.calledAt),
    attempt: { ...lock.attempt, startedAt: by(lock.attempt.startedAt) },
    hold: { ...lock.hold, deadline: by(lock.hold.deadline) },
    extension: { ...lock.extension, startedAt: by(lock.extension.startedAt) },
  };
  const timers = local.timers.map((at) => (at === UNARMED ? UNARMED : Math.max(0, at - ticks)));
  return { ...local, lock: canonicalLock(policy, bounds, aged), timers };
}

function permute(lock: LockState, to: readonly number[]): LockState {
  const { counters } = lock;
  const marks = [...counters.marks];
  for (const [node, mark] of counters.marks.entries()) marks[to[node] ?? node] = mark;
  return mapNodeSets({ ...lock, counters: { ...counters, marks } }, (set) => {
    let permuted = 0;
    for (const node of members(set)) permuted |= 1 << (to[node] ?? node);
    return permuted as typeof set;
  });
}

/** Whether a lock in this state may come to be held, or is. */
function mayHold(policy: Policy, lock: LockState): boolean {
  switch (lock.phase) {
    case 'held':
      return true;
    case 'lost':
      return deviates(policy, 'extends-late', 'extends-if-begun-in-time');
    default:
      return isTrying(lock);
  }
}

const TRYING: ReadonlySet<Phase> = new Set(['idle', 'acquiring', 'reading', 'raising', 'cleaning', 'waiting']);

/** Whether a lock in this state may come to be claimed, for the first time or once more. */
function isTrying({ phase }: LockState): boolean {
  return TRYING.has(phase);
}
