import {
  type AttemptRandomness,
  type Command,
  exactAllowance,
  has,
  type LocalTime,
  later,
  MIDDLE_JITTER_PPM,
  type NodeSet,
  type Outcome,
  type Timer,
  type Token,
} from '../../core/index.js';
import { deviates, lockPolicyOf, type Policy, statedDrift } from '../../deviations/index.js';
import type { ClientPlan, LockPlan } from '../../scenarios/index.js';
import {
  LockDriver,
  type LockRuntime,
  type Pacer,
  type Receiver,
  type Reply,
  type Request,
  type Voter,
} from '../lock/parts.js';
import type { ClientClock } from './client-clock.js';
import type { ObservationRecorder } from './observation-recorder.js';
import type { Channel } from './proxied-link.js';
import type { ReplayClock } from './replay-clock.js';

/** What can happen to a client. */
export type Happening = 'delivery' | 'call' | 'timer';

/** The client that a lock is of. */
export interface LockOwner {
  readonly plan: ClientPlan;
  readonly policy: Policy;
  readonly clockwork: ReplayClock;
  readonly script: ObservationRecorder;
  readonly clock: ClientClock;
  readonly machine: LockRuntime;
  readonly pacer: Pacer;
  /** Where it acquires now. */
  readonly list: readonly Channel[];
  /** When its last pause was over, by its clock. */
  readonly awakeSince: LocalTime;
  /** The keys of resources. */
  keysOf(resources: readonly string[]): string[];
  /** Lets something happen to it, now or when it is not frozen any more; never once it has crashed. */
  happen(kind: Happening, what: () => void): void;
  /** A token, fresh or one that somebody may have had before. */
  drawToken(): Token;
}

/** A node in the list of a client, which may have it twice. */
class Place implements Voter {
  readonly index: number;
  readonly #way: Channel;
  readonly #lock: number;
  readonly #owner: LockOwner;

  constructor(index: number, way: Channel, lock: number, owner: LockOwner) {
    this.index = index;
    this.#way = way;
    this.#lock = lock;
    this.#owner = owner;
  }

  perform(request: Request, receiver: Receiver): boolean {
    const { machine } = this.#owner;
    this.#way.send(request, this.#lock, {
      wake: (what) => this.#owner.happen('delivery', what),
      onReply: (reply) => receiver.onReply(this.index, request.command, reply, null, machine.clock.now()),
    });
    return true;
  }

  /** A node of a schedule is never known to be away. */
  decline(): void {}
}

/** A busy machine may be as late with the timer by which an owner is told. */
const TOLD_WITHIN_US = 100_000;

/** One acquisition of a client, by the driver of the lock for production, and what is planned after it. */
export class ActedLock extends LockDriver {
  readonly plan: LockPlan;
  /** When it was asked for, as long as it is neither acquired nor given up; µs. */
  waitsSinceUs: number | null = null;
  readonly #actor: LockOwner;
  readonly #number: number;
  /** The nodes that it was asked for on. */
  readonly #places: readonly Channel[];
  #extending = false;
  /** From the claim until the release, the news of the loss, or the client's end. */
  #believing = false;
  #gaveBack = false;
  /** Until when the keys that it asked for last are there for a reason, µs. */
  #keysUntilUs = 0;
  /** When its timers are due. */
  readonly #due = new Map<Timer, LocalTime>();
  /** Commands that a node said no to, or answered with an error. */
  readonly #denied = new Set<string>();
  #over = false;
  #planned = 0;

  constructor(actor: LockOwner, plan: LockPlan, number: number) {
    const { list, machine, pacer, policy } = actor;
    const nodes = list.map((way, index) => new Place(index, way, number, actor));
    super({ nodes, pacer }, lockPolicyOf(policy), actor.keysOf(plan.resources), machine);
    this.#actor = actor;
    this.plan = plan;
    this.#number = number;
    this.#places = list;
  }

  get done(): boolean {
    return this.#over && this.#planned === 0;
  }

  get name(): string {
    return `${this.#actor.plan.id}/${this.#number}`;
  }

  get holds(): boolean {
    return this.#believing && this.#now < this.state.hold.deadline;
  }

  /** The token that keys on nodes have for a reason: until a claim is released, its keys are its own for their TTL. */
  get tokenInUse(): string | null {
    const { phase } = this.state;
    const { token } = this.state.attempt;
    const again = phase === 'waiting' && deviates(this.#actor.policy, 'token-per-call');
    const kept = phase === 'held' || (phase === 'lost' && this.#actor.clockwork.nowUs() < this.#keysUntilUs);
    return (phase === 'acquiring' || again || kept || this.holds) && token !== null ? String(token) : null;
  }

  get #now(): LocalTime {
    return this.machine.clock.now();
  }

  call(): void {
    const { clockwork, script } = this.#actor;
    this.waitsSinceUs = clockwork.nowUs();
    const { resources, ttlMs } = this.plan;
    script.note({ type: 'acquire', ...this.#stamp(), client: this.#actor.plan.id, resources, ttlMs });
    this.start(ttlMs);
  }

  override arm(lock: LockDriver, timer: Timer, at: LocalTime, now: LocalTime): void {
    this.#due.set(timer, at);
    super.arm(lock, timer, at, now);
  }

  override onTimer(timer: Timer): void {
    this.#actor.clockwork.wasLate(this.#now - (this.#due.get(timer) ?? this.#now));
    this.#actor.happen('timer', () => super.onTimer(timer, this.#now));
  }

  override draw(_lock: LockDriver, attempt: number): AttemptRandomness {
    return { token: this.#actor.drawToken(), jitterPpm: this.plan.jitterPpm[attempt] ?? MIDDLE_JITTER_PPM };
  }

  override send(lock: LockDriver, to: NodeSet, command: Command, now: LocalTime): void {
    const { clockwork, script } = this.#actor;
    const { operation, ttlMs } = command;
    if (operation === 'extend' && !this.#extending) {
      this.#extending = true;
      script.note({ type: 'extend', ...this.#stamp(), ttlMs });
    }
    if (operation === 'acquire' || operation === 'extend') this.#keysUntilUs = clockwork.nowUs() + ttlMs * 1000;
    super.send(lock, to, command, now);
  }

  override onReply(node: number, command: Command, reply: Reply, error: Error | null, now: LocalTime): void {
    if (reply.answer !== 'yes') this.#denied.add(questionOf(command, node));
    super.onReply(node, command, reply, error, now);
  }

  /** Its clock was set back or stops: a claim lasts longer than its owner was told. */
  clockChanged(): void {
    const { clock, script } = this.#actor;
    if (this.#believing) script.prolonged(this.name, clock.usUntil(this.state.hold.deadline));
  }

  crash(): void {
    this.stop();
    // Nobody believes any more.
    if (this.#believing) this.#giveBack();
  }

  /** Nothing happens to it any more. */
  dismiss(): void {
    this.stop();
  }

  #stamp(): { readonly lock: string; readonly atUs: number } {
    return { lock: this.name, atUs: this.#actor.clockwork.nowUs() };
  }

  protected override onOutcome(outcome: Outcome, now: LocalTime): void {
    const { script } = this.#actor;
    const validUs = this.#actor.clock.usUntil(this.state.hold.deadline);
    switch (outcome.type) {
      case 'acquired':
        this.waitsSinceUs = null;
        this.#believing = true;
        script.note({ type: 'acquired', ...this.#stamp(), validUs });
        script.claimed(this.#actor.plan.id);
        this.#checkClaim('acquire');
        this.#planWork(now);
        break;
      case 'failed':
        this.waitsSinceUs = null;
        this.#over = true;
        script.note({ type: 'failed', ...this.#stamp() });
        break;
      case 'extended':
      case 'not-extended':
        // One that is refused beside a round ends nothing.
        if (this.state.extension.isOpen) break;
        if (this.#extending) script.note({ type: outcome.type, ...this.#stamp(), validUs });
        this.#extending = false;
        if (outcome.type === 'not-extended') break;
        this.#believing = true;
        this.#checkClaim('extend');
        break;
      case 'lost':
        // A history has no word for an owner who gives up; one whose validity is over is no holder anyway.
        if (this.holds) this.#giveBack();
        this.#believing = false;
        if (this.plan.holdUs === null) this.#over = true;
        break;
      case 'released':
        this.#over = true;
        // A history has no word for a caller who believes while it waits for its release: it releases at the end of that.
        if (this.#actor.policy.habits.beliefEnds === 'after-release') this.#giveBack();
        script.note({ type: 'released', ...this.#stamp() });
        break;
    }
  }

  #planWork(now: LocalTime): void {
    const { holdUs, extensions, writes } = this.plan;
    if (holdUs !== null) this.#later(now, holdUs, () => this.#release());
    for (const { afterUs, ttlMs } of extensions)
      this.#later(now, afterUs, () => this.feed({ type: 'extend', now: this.#now, ttlMs }));
    for (const { checkAfterUs, guardUs, sendAfterUs, delayUs } of writes) {
      this.#later(now, checkAfterUs, () => {
        const left = this.state.phase === 'held' ? this.state.hold.deadline - this.#now : 0;
        if (guardUs !== null && left < Math.max(1, guardUs)) return;
        this.#later(now, sendAfterUs, () => this.#write(delayUs));
      });
    }
  }

  /** The write is on its way, whatever becomes of its sender. */
  #write(delayUs: number): void {
    const { clockwork, script } = this.#actor;
    this.#planned++;
    clockwork.in(delayUs, () => {
      this.#planned--;
      const resource = this.plan.resources[0] ?? '';
      script.note({ type: 'write', ...this.#stamp(), resource });
    });
  }

  #release(): void {
    this.checkTold();
    if (this.#actor.policy.habits.beliefEnds === 'at-release') this.#giveBack();
    this.feed({ type: 'release', now: this.#now });
  }

  #giveBack(): void {
    this.#believing = false;
    if (this.#gaveBack) return;
    this.#gaveBack = true;
    this.#actor.script.note({ type: 'release', ...this.#stamp() });
  }

  /** Notes a claim that is over without its owner having been told. */
  checkTold(): void {
    const { script, awakeSince } = this.#actor;
    const dueAt = Math.max(this.state.hold.deadline, awakeSince);
    if (this.#believing && this.#now - dueAt > TOLD_WITHIN_US)
      script.doubt({
        lock: this.name,
        property: 'loss-notified',
        detail: 'its claim is over, and its owner is not told',
      });
  }

  /** Notes a claim that is longer than its keys can be relied on, or that too few nodes can have said yes to. */
  #checkClaim(operation: 'acquire' | 'extend'): void {
    const { attempt, votes, extension, hold } = this.state;
    const { policy, script } = this.#actor;
    const isExtension = operation === 'extend';
    const { startedAt } = isExtension ? extension : attempt;
    const ttlUs = (isExtension ? extension : this.state).ttlMs * 1000;
    const round = isExtension ? extension.number : 0;
    const doubt = (detail: string): void =>
      script.doubt({ lock: this.name, property: isExtension ? 'extension' : 'acquisition', detail });
    const allowanceUs = Math.max(0, exactAllowance(ttlUs, statedDrift(policy)));
    const beyondUs = hold.deadline - later(startedAt, ttlUs - allowanceUs);
    if (beyondUs > 0) doubt(`it is claimed for ${beyondUs} µs longer than its keys can be relied on`);
    // A node that has said nothing may have done what it was asked for.
    const isDenied = (place: number): boolean =>
      this.#denied.has(questionOf({ operation, attempt: attempt.number, round }, place));
    const nodes = new Set(this.#places.map(({ node }) => node)).size;
    const yes = new Set(this.#places.flatMap(({ node }, i) => (has(votes.yes, i) && !isDenied(i) ? [node] : []))).size;
    if (yes <= nodes / 2) doubt(`${yes} of ${nodes} nodes can have said yes to it, which is no majority`);
  }

  /** Does something so long after the claim. */
  #later(claim: LocalTime, afterUs: number, what: () => void): void {
    this.#planned++;
    this.#at(later(claim, afterUs), () => {
      this.#planned--;
      what();
    });
  }

  /** Does something when the clock of the client shows an instant, which may have been set back meanwhile. */
  #at(at: LocalTime, what: () => void): void {
    const { clock, clockwork } = this.#actor;
    clockwork.in(clock.usUntil(at), () =>
      this.#actor.happen('timer', () => {
        if (clock.usUntil(at) === 0) what();
        else this.#at(at, what);
      }),
    );
  }
}

function questionOf(
  { operation, attempt, round }: Pick<Command, 'operation' | 'attempt' | 'round'>,
  node: number,
): string {
  return `${operation} ${attempt} ${round} ${node}`;
}
