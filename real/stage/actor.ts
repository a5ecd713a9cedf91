import {
  type Chance,
  type Command,
  has,
  initialState,
  type LocalTime,
  type LockEvent,
  type LockState,
  later,
  MIDDLE_JITTER_PPM,
  type NodeSet,
  type Outcome,
  step,
  type Timer,
} from '../../core/index.js';
import { lockPolicyOf, type Policy } from '../../deviations/index.js';
import type { ClientPlan, LockPlan, ProcessName } from '../../scenarios/index.js';
import { Alarms } from '../alarms.js';
import { systemChance } from '../chance.js';
import { systemClock } from '../clock.js';
import type { Clockwork } from './clockwork.js';
import type { Script } from './script.js';
import { type Way, wordsFor } from './way.js';

/** One client of a schedule: does what is planned for it, with the lock of `core` under the schedule's policy. */
export class Actor {
  readonly plan: ClientPlan;
  readonly policy: Policy;
  /** Its ways to all nodes of the cluster. */
  readonly ways: readonly Way[];
  readonly clockwork: Clockwork;
  readonly script: Script;
  readonly #locks: ActedLock[];
  /** The nodes that it is told of, in its order; one may be there twice. */
  #list: readonly Way[];
  /** What happened while it was frozen; `null` while it is not. */
  #frozen: (() => void)[] | null = null;
  #pauses = 0;
  #crashed = false;
  #dismissed = false;

  constructor(plan: ClientPlan, policy: Policy, ways: readonly Way[], clockwork: Clockwork, script: Script) {
    this.plan = plan;
    this.policy = policy;
    this.ways = ways;
    this.#list = plan.nodes === undefined ? ways : this.#named(plan.nodes);
    this.clockwork = clockwork;
    this.script = script;
    this.#locks = plan.locks.map((lock, number) => new ActedLock(this, lock, number));
  }

  #named(nodes: readonly ProcessName[]): Way[] {
    return nodes.flatMap((node) => this.ways.find((way) => way.node === node) ?? []);
  }

  /** Where it acquires from now on. */
  get list(): readonly Way[] {
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
    for (const lock of this.#locks) this.clockwork.at(lock.plan.atUs, () => this.happen(() => lock.call()));
  }

  /** Lets something happen to it, now or when it is not frozen any more; never once it has crashed. */
  happen(what: () => void): void {
    if (this.#crashed || this.#dismissed) return;
    if (this.#frozen === null) what();
    else this.#frozen.push(what);
  }

  freeze(): void {
    this.#pauses++;
    this.#frozen ??= [];
  }

  thaw(): void {
    if (--this.#pauses > 0 || this.#frozen === null) return;
    const missed = this.#frozen;
    this.#frozen = null;
    for (const what of missed) this.happen(what);
  }

  crash(): void {
    for (const lock of this.#locks) lock.crash();
    this.#crashed = true;
  }

  /** The run is over: nothing more happens to it, and what it believes stays as it is. */
  dismiss(): void {
    this.#dismissed = true;
    for (const lock of this.#locks) lock.silence();
  }

  /** Whether nothing more will happen to it. */
  get done(): boolean {
    return this.#crashed || this.#locks.every((lock) => lock.done);
  }

  /** Tokens that it has a use for in this key. */
  tokensInUse(key: string): string[] {
    if (this.#crashed) return [];
    return this.#locks.flatMap((lock) => (lock.keys.includes(key) ? (lock.tokenInUse ?? []) : []));
  }

  /** Its locks with this key that it believes in, with their tokens. */
  holders(key: string): { readonly lock: string; readonly token: string }[] {
    if (this.#crashed) return [];
    return this.#locks.flatMap((lock) => {
      const { tokenInUse: token } = lock;
      return lock.holds && token !== null && lock.keys.includes(key) ? [{ lock: lock.name, token }] : [];
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

/** One acquisition of a client and what is planned after it. */
class ActedLock {
  readonly plan: LockPlan;
  readonly keys: readonly string[];
  /** When it was asked for, as long as it is neither acquired nor given up; µs. */
  waitsSinceUs: number | null = null;
  readonly #actor: Actor;
  readonly #number: number;
  readonly #alarms: Alarms;
  /** The nodes that it was asked for on. */
  #places: readonly Way[] = [];
  #state: LockState = initialState();
  #extending = false;
  #begun = false;
  #over = false;
  #planned = 0;

  constructor(actor: Actor, plan: LockPlan, number: number) {
    this.#actor = actor;
    this.plan = plan;
    this.keys = actor.keysOf(plan.resources);
    this.#number = number;
    this.#alarms = new Alarms(systemClock, this);
  }

  get done(): boolean {
    return this.#begun && this.#over && this.#planned === 0;
  }

  get name(): string {
    return `${this.#actor.plan.id}/${this.#number}`;
  }

  get holds(): boolean {
    return this.#state.phase === 'held' && systemClock.now() < this.#state.deadline;
  }

  get tokenInUse(): string | null {
    const { phase } = this.#state;
    const again = phase === 'waiting' && this.#actor.policy.tokenScope === 'call';
    const used = phase === 'acquiring' || again || this.holds;
    return used && this.#state.token !== null ? String(this.#state.token) : null;
  }

  call(): void {
    this.#begun = true;
    const { clockwork, script, list } = this.#actor;
    this.#places = list;
    this.waitsSinceUs = clockwork.nowUs();
    const { resources, ttlMs } = this.plan;
    script.note({ type: 'acquire', ...this.#stamp(), client: this.#actor.plan.id, resources, ttlMs });
    this.#feed({
      type: 'acquire',
      now: systemClock.now(),
      nodes: list.length,
      ttlMs,
      chance: this.#chance(0),
    });
  }

  onTimer(timer: Timer): void {
    this.#actor.happen(() => {
      const chance = timer === 'retry' ? this.#chance(this.#state.attempt + 1) : null;
      this.#feed({ type: 'timer', now: systemClock.now(), timer, chance });
    });
  }

  silence(): void {
    this.#alarms.clear();
  }

  crash(): void {
    this.silence();
    // Nobody believes any more.
    if (this.#state.phase === 'held') this.#actor.script.note({ type: 'release', ...this.#stamp() });
  }

  #stamp(): { readonly lock: string; readonly atUs: number } {
    return { lock: this.name, atUs: this.#actor.clockwork.nowUs() };
  }

  #chance(attempt: number): Chance {
    return { token: systemChance.draw().token, jitterPpm: this.plan.jitterPpm[attempt] ?? MIDDLE_JITTER_PPM };
  }

  #feed(event: LockEvent): void {
    const { state, effects } = step(lockPolicyOf(this.#actor.policy), this.#state, event);
    this.#state = state;
    for (const effect of effects) {
      switch (effect.type) {
        case 'send':
          this.#send(effect.to, effect.command);
          break;
        case 'arm':
          this.#alarms.arm(effect.timer, effect.at, event.now);
          break;
        case 'cancel':
          this.#alarms.cancel(effect.timer);
          break;
        case 'report':
          this.#report(effect.outcome, event.now);
          break;
      }
    }
  }

  #send(to: NodeSet, command: Command): void {
    const { policy, script } = this.#actor;
    if (command.operation === 'extend' && !this.#extending) {
      this.#extending = true;
      script.note({ type: 'extend', ...this.#stamp(), ttlMs: command.ttlMs });
    }
    const words = wordsFor(policy, command, this.keys);
    for (const [node, way] of this.#places.entries()) {
      if (!has(to, node)) continue;
      way.send(words, this.#number, command, (answer) =>
        this.#actor.happen(() =>
          this.#feed({ type: 'reply', now: systemClock.now(), node, command, answer, counter: 0 }),
        ),
      );
    }
  }

  #report(outcome: Outcome, now: LocalTime): void {
    const { script } = this.#actor;
    const validUs = Math.max(0, this.#state.deadline - now);
    switch (outcome.type) {
      case 'acquired':
        this.waitsSinceUs = null;
        script.note({ type: 'acquired', ...this.#stamp(), validUs });
        script.claimed(this.#actor.plan.id);
        this.#planWork(now);
        break;
      case 'failed':
        this.waitsSinceUs = null;
        this.#over = true;
        script.note({ type: 'failed', ...this.#stamp() });
        break;
      case 'extended':
      case 'not-extended':
        if (this.#extending) script.note({ type: outcome.type, ...this.#stamp(), validUs });
        this.#extending = false;
        break;
      case 'lost':
        if (this.plan.holdUs === null) this.#over = true;
        break;
      case 'released':
        this.#over = true;
        script.note({ type: 'released', ...this.#stamp() });
        break;
    }
  }

  #planWork(now: LocalTime): void {
    const { holdUs, extensions, writes } = this.plan;
    if (holdUs !== null) this.#later(now, holdUs, () => this.#release());
    for (const { afterUs, ttlMs } of extensions)
      this.#later(now, afterUs, () => this.#feed({ type: 'extend', now: systemClock.now(), ttlMs }));
    for (const { checkAfterUs, guardUs, sendAfterUs, delayUs } of writes) {
      this.#later(now, checkAfterUs, () => {
        const left = this.#state.phase === 'held' ? this.#state.deadline - systemClock.now() : 0;
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
    this.#actor.script.note({ type: 'release', ...this.#stamp() });
    this.#feed({ type: 'release', now: systemClock.now() });
  }

  /** Does something so long after the claim. */
  #later(claim: LocalTime, afterUs: number, what: () => void): void {
    this.#planned++;
    this.#actor.clockwork.in(later(claim, afterUs) - systemClock.now(), () =>
      this.#actor.happen(() => {
        this.#planned--;
        what();
      }),
    );
  }
}
