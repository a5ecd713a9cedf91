import { LONGEST_US, type LocalTime, localTime, type Token } from '../../core/index.js';
import type { Policy } from '../../deviations/index.js';
import type { ClientPlan, LockPlan, ProcessName } from '../../scenarios/index.js';
import { type LockRuntime, newRuntime, Pacer } from '../lock/parts.js';
import { ActedLock, type Happening, type LockOwner } from './acted-lock.js';
import { ClientClock } from './client-clock.js';
import type { ObservationRecorder } from './observation-recorder.js';
import type { Channel } from './proxied-link.js';
import type { ReplayClock } from './replay-clock.js';

/** What can happen to a client, in the order in which it comes after a pause. */
const HAPPENINGS: readonly Happening[] = ['delivery', 'call', 'timer'];
const TIMERS_FIRST: readonly Happening[] = ['timer', 'delivery', 'call'];

/** What the time of a token from a clock looks like. */
function tokenAt(now: LocalTime, tickUs: number): Token {
  return String(Math.floor(now / tickUs)) as Token;
}

/** One client of a schedule: does what is planned for it, with the driver of the production lock under the schedule's policy. */
export class ReplayClient implements LockOwner {
  readonly plan: ClientPlan;
  readonly policy: Policy;
  /** Its ways to all nodes of the cluster. */
  readonly ways: readonly Channel[];
  readonly clockwork: ReplayClock;
  readonly script: ObservationRecorder;
  readonly clock: ClientClock;
  readonly machine: LockRuntime;
  readonly pacer: Pacer = new Pacer();
  /** Those that it has asked for. */
  readonly #locks: ActedLock[] = [];
  /** The nodes that it is told of, in its order; one may be there twice. */
  #list: readonly Channel[];
  /** What happened while it was frozen; `null` while it is not. */
  #frozen: { readonly kind: Happening; readonly what: () => void }[] | null = null;
  #pauses = 0;
  #crashed = false;
  #dismissed = false;
  /** The token that it drew last, where one serves as long as the process lives. */
  #ownToken: Token | null = null;

  constructor(
    plan: ClientPlan,
    policy: Policy,
    ways: readonly Channel[],
    clockwork: ReplayClock,
    script: ObservationRecorder,
  ) {
    this.plan = plan;
    this.policy = policy;
    this.ways = ways;
    this.#list = plan.nodes === undefined ? ways : this.#named(plan.nodes);
    this.clockwork = clockwork;
    this.script = script;
    this.clock = new ClientClock(clockwork.clock);
    this.machine = { ...newRuntime(), clock: this.clock };
  }

  #named(nodes: readonly ProcessName[]): Channel[] {
    return nodes.flatMap((node) => this.ways.find((way) => way.node === node) ?? []);
  }

  /** When its last pause was over, by its clock. */
  awakeSince: LocalTime = localTime(-LONGEST_US);

  /** Where it acquires from now on. */
  get list(): readonly Channel[] {
    return this.#list;
  }

  reconfigure(nodes: readonly ProcessName[]): void {
    this.#list = this.#named(nodes);
  }

  /** The keys of resources. */
  keysOf(resources: readonly string[]): string[] {
    return resources.map((resource) => `${this.plan.keyPrefix ?? ''}${resource}`);
  }

  /** Plans its calls. */
  begin(): void {
    for (const [number, lock] of this.plan.locks.entries())
      this.clockwork.at(lock.atUs, () => this.happen('call', () => this.#call(lock, number)));
  }

  #call(plan: LockPlan, number: number): void {
    const lock = new ActedLock(this, plan, number);
    this.#locks.push(lock);
    lock.call();
  }

  /** Lets something happen to it, now or when it is not frozen any more; never once it has crashed. */
  happen(kind: Happening, what: () => void): void {
    if (this.#crashed || this.#dismissed) return;
    if (this.#frozen === null) what();
    else this.#frozen.push({ kind, what });
  }

  /** A token, fresh or one that somebody may have had before. */
  drawToken(): Token {
    const { tokenFrom, tokenPerProcess } = this.policy.habits;
    if (tokenPerProcess && this.#ownToken !== null) return this.#ownToken;
    const token =
      tokenFrom === 'random'
        ? this.machine.chance.draw().token
        : tokenAt(this.clock.now(), tokenFrom === 'clock' ? 1000 : 1);
    this.#ownToken = token;
    return token;
  }

  freeze(): void {
    this.#pauses++;
    this.#frozen ??= [];
  }

  /** The end of a pause; what was missed comes in the order of its kind, and of its arrival. */
  thaw(first: 'deliveries' | 'timers' = 'deliveries'): void {
    if (--this.#pauses > 0 || this.#frozen === null) return;
    const missed = this.#frozen;
    this.#frozen = null;
    this.awakeSince = this.clock.now();
    for (const next of first === 'timers' ? TIMERS_FIRST : HAPPENINGS)
      for (const { kind, what } of missed) if (kind === next) this.happen(kind, what);
  }

  /** Somebody sets the wall clock of its machine back. */
  setBack(byUs: number): void {
    if (this.policy.habits.clock !== 'wall') return;
    this.clock.setBack(byUs);
    for (const lock of this.#locks) lock.clockChanged();
  }

  /** Its machine is suspended: clocks that do not count that time stop. {@link ReplayClient.freeze} stops the client itself. */
  suspend(forUs: number, stops: 'monotonic' | 'all' = 'monotonic'): void {
    if (stops !== 'all' && this.policy.habits.clock !== 'monotonic') return;
    this.clock.stop(forUs);
    for (const lock of this.#locks) lock.clockChanged();
  }

  crash(): void {
    for (const lock of this.#locks) lock.crash();
    this.#crashed = true;
  }

  /** The run is over: nothing more happens to it, and what it believes stays as it is. */
  dismiss(): void {
    if (!this.#crashed && this.#frozen === null) for (const lock of this.#locks) lock.checkTold();
    this.#dismissed = true;
    for (const lock of this.#locks) lock.dismiss();
  }

  /** Whether nothing more will happen to it. */
  get done(): boolean {
    return this.#crashed || (this.#locks.length === this.plan.locks.length && this.#locks.every((lock) => lock.done));
  }

  /** Tokens that it has a use for in this key. */
  tokensInUse(key: string): string[] {
    if (this.#crashed) return [];
    return this.#locks.flatMap((lock) => (lock.resources.includes(key) ? (lock.tokenInUse ?? []) : []));
  }

  /** Its locks with this key that it believes in, with their tokens. */
  holders(key: string): { readonly lock: string; readonly token: string }[] {
    if (this.#crashed) return [];
    return this.#locks.flatMap((lock) => {
      const { tokenInUse: token } = lock;
      return lock.holds && token !== null && lock.resources.includes(key) ? [{ lock: lock.name, token }] : [];
    });
  }

  /** Locks that it waits for. */
  get waiting(): readonly { readonly plan: LockPlan; readonly sinceUs: number }[] {
    if (this.#crashed) return [];
    return this.#locks.flatMap(({ plan, waitsSinceUs }) =>
      waitsSinceUs === null ? [] : [{ plan, sinceUs: waitsSinceUs }],
    );
  }
}
