import {
  type Answer,
  type Command,
  LONGEST_US,
  type LocalTime,
  localTime,
  resetState,
  type Token,
} from '../core/index.js';
import { Kind, type QueueEvent, type SimLock, type TrueTime, trueTime } from '../sim/index.js';
import { AfterRelease } from './after-release.js';
import { isOpen } from './asker.js';
import { follow, reasonOf } from './follow.js';
import { BeliefEnd, Hold, Holds, untilOf } from './hold.js';
import { EPOCH_MS, LibraryHost } from './library-host.js';
import {
  extensionOf,
  heldInRoutine,
  heldShapeError,
  type LockUnderTest,
  readHoldEnd,
  releaseOf,
  saysNothing,
} from './lock-under-test.js';

/**
 * A client process that runs somebody else's lock client, unmodified: its own clocks, timers, randomness and connections.
 * What the client says of its lock is what it believes.
 */
export class LibraryClient extends LibraryHost {
  /** While it is made, a promise of it. */
  private client: LockUnderTest | Promise<LockUnderTest> | null = null;
  readonly holds: Holds = new Holds();
  /** Those of them that are not over, or are believed in. */
  private readonly open = new Set<Hold>();
  private readonly afterRelease = new AfterRelease();

  /** Everything that follows from the event has happened: reads what locks say of themselves. */
  override settle(): void {
    for (const hold of this.open) {
      if (hold.lock.believing) this.readBelief(hold);
      else if (hold.over) this.open.delete(hold);
      // It goes on with the lock, and so has taken it for extended.
      if (hold.isExtended && hold.lock.believing) this.noteExtended(hold);
      hold.isExtended = false;
    }
    const again = this.afterRelease.look(this.context.now, ({ held }) => {
      const nowMs = this.wallMs();
      return this.look(() => readHoldEnd(held, nowMs, Number.NaN)) > nowMs;
    });
    if (again !== null) this.session.heldAgain(again.lock, again.afterUs);
  }

  protected override asks(lock: SimLock, place: number, what: Command['operation']): void {
    const extensions = this.holds.get(lock)?.extensions;
    if (what === 'extend') extensions?.sent(place);
    if (what === 'release') extensions?.givenUp();
  }

  protected override answered(lock: SimLock, place: number, answer: Answer): void {
    const hold = this.holds.get(lock);
    if (hold === undefined || hold.releasing || !lock.believing) return;
    const { now } = this.context;
    const sinceUs = hold.haste.answered(place, answer === 'yes', this.pauses, now);
    if (sinceUs !== null) this.session.makesHaste(lock, place, now - sinceUs);
  }

  /** A library that keeps its lock alive by itself does not tell of it: the answer of a majority does. */
  protected override extensionGranted(lock: SimLock, place: number): void {
    const hold = this.holds.get(lock);
    if (hold === undefined || hold.held === null) return;
    const isMajority = hold.extensions.answered(place, lock.list.majority);
    hold.isExtended ||= isMajority && lock.state.hold.deadline >= LONGEST_US;
  }

  private readBelief(hold: Hold): void {
    const { lock } = hold;
    const deadline = this.deadlineOf(hold);
    if (deadline === lock.state.hold.deadline) return;
    const now = this.clock.read(this.context.now);
    const ends = deadline <= now;
    // One that says "no more" was held until now, whatever time it gives for its end.
    this.stateOf(lock).hold.deadline = ends ? localTime(Math.min(lock.state.hold.deadline, now)) : deadline;
    lock.findEnd();
    if (ends) this.believeNoMore(hold);
    else this.watch(hold);
  }

  private deadlineOf(hold: Hold): LocalTime {
    const untilMs = this.look(() => readHoldEnd(hold.held, this.wallMs(), hold.otherwise));
    if (untilMs === Number.POSITIVE_INFINITY) return this.saidUntil(hold);
    this.session.checkPlausible(this, untilMs);
    return localTime(Math.max(0, Math.floor((untilMs - EPOCH_MS) * 1000)));
  }

  /** Until when a lock that says now that it is held will say so, if nothing happens but that time passes. */
  private saidUntil(hold: Hold): LocalTime {
    const { held } = hold;
    const isHeld = (): boolean => readHoldEnd(held, EPOCH_MS, Number.POSITIVE_INFINITY) === Number.POSITIVE_INFINITY;
    if (!this.readsClocks(isHeld)) return localTime(LONGEST_US);
    const end = hold.findEnd(this.context.now, (at) => this.look(isHeld, trueTime(at)));
    return localTime(end === null ? LONGEST_US : this.clock.read(trueTime(end)));
  }

  private believeNoMore(hold: Hold): void {
    const { lock } = hold;
    this.stateOf(lock).phase = 'lost';
    this.context.expired(lock);
    this.session.heldPauses.over(this.name, this.context.now);
    if (lock.plan.holdUs === null) this.finish(hold);
  }

  /** Has the end of a belief noticed, wherever the library itself does not. */
  private watch({ lock, end }: Hold): void {
    const { deadline } = lock.state.hold;
    end.event = deadline >= LONGEST_US ? null : this.host.pushTimer(this, end, 0, deadline, this.clock);
  }

  // ——— what is planned ———

  override acquire(lock: SimLock): void {
    this.context.called(Kind.call, lock);
    lock.repeats = true;
    this.task = lock;
    this.randomCalls = 0;
    const { places, majority } = lock.list;
    const state = this.stateOf(lock);
    resetState(state);
    state.phase = 'acquiring';
    state.electorate = { nodes: places, needed: majority, wanted: majority };
    state.ttlMs = lock.plan.ttlMs;
    const [resource = 'a'] = lock.plan.resources;
    const hold = new Hold(lock, this.session.resourceFor(this, resource), this.wallMs());
    this.holds.set(lock, hold);
    this.open.add(hold);
    this.afterRelease.ends();
    this.session.judge.called(lock, this.context.now);
    if ([...this.open].some((it) => it.lock !== lock && isOpen(it.lock))) this.session.overlapping.add(this.name);
    this.asking = lock;
    this.enter(() => this.ask(hold));
    this.asking = null;
    this.host.attempted(lock);
  }

  private ask(hold: Hold): void {
    const { lock } = hold;
    this.client ??= this.session.makeClient(this, lock);
    const { client } = this;
    const done = this.session.opens(this, 'acquire');
    if (!(client instanceof Promise)) {
      this.askOf(client, hold, done);
      return;
    }
    follow(
      () => client,
      () => {},
      (made) => {
        this.client = made as LockUnderTest;
        this.askOf(this.client, hold, done);
      },
      (error) => {
        this.client = null;
        done();
        this.session.seen.rejection = error;
        this.refused(hold, reasonOf(error));
      },
      () => this.isOver(hold),
    );
  }

  private askOf(client: LockUnderTest, hold: Hold, done: () => void): void {
    const { ttlMs } = hold.lock.plan;
    const { acquire, using } = client;
    this.task = hold.lock;
    if (using !== undefined && (acquire === undefined || this.session.extendsItself)) {
      this.use(hold, client, using, done);
      return;
    }
    follow(
      () => acquire?.call(client, hold.resource, ttlMs),
      done,
      (held) => {
        if (held === null || held === undefined || held === false) this.refused(hold, 'contended');
        else this.given(hold, client, held);
      },
      (error) => {
        this.session.seen.rejection = error;
        this.refused(hold, reasonOf(error), error);
      },
      () => this.isOver(hold),
    );
  }

  private given(hold: Hold, client: LockUnderTest, held: unknown): void {
    const wrong = this.look(() => heldShapeError(client, held));
    if (wrong === null) this.acquired(hold, held);
    else this.session.refuse(wrong);
  }

  private use(hold: Hold, client: LockUnderTest, using: NonNullable<LockUnderTest['using']>, done: () => void): void {
    const { lock } = hold;
    let returnedUs: number | null = null;
    const routine = (given?: unknown): Promise<void> => {
      done();
      if (this.isOver(hold)) return Promise.resolve();
      const held = this.look(() => heldInRoutine(given));
      this.session.seen.signal ||= held.signal !== undefined;
      hold.otherwise = Number.POSITIVE_INFINITY;
      this.acquired(hold, held);
      held.signal?.addEventListener('abort', () => {
        if (returnedUs !== null && !lock.gone) this.session.signalled(lock, this.context.now - returnedUs);
      });
      return new Promise((resolve, reject) => {
        hold.leave = () => (hold.throws ? reject(new Error('the work failed')) : resolve());
      });
    };
    const ended = (error?: unknown): void => {
      returnedUs = this.context.now;
      if (hold.held === null) this.refused(hold, 'contended', error);
      // An error of the work comes through.
      else this.released(hold, hold.throws ? undefined : error);
    };
    follow(
      () => using.call(client, hold.resource, hold.lock.plan.ttlMs, routine),
      done,
      () => ended(),
      ended,
      () => this.isOver(hold),
    );
  }

  /** Whether this is about a lock of a process that is dead. */
  private isOver({ lock, over }: Hold): boolean {
    return over || lock.gone;
  }

  private acquired(hold: Hold, held: unknown): void {
    const { lock } = hold;
    hold.held = held;
    const token = this.session.judge.tokenBehind(lock, this.context.now);
    if (token !== lock.token) {
      lock.token = token;
      this.stateOf(lock).attempt.token = token as unknown as Token;
    }
    const deadline = this.deadlineOf(hold);
    this.stateOf(lock).phase = 'held';
    this.stateOf(lock).hold.deadline = deadline;
    const leftUs = deadline === 0 ? Number.NEGATIVE_INFINITY : deadline - this.clock.read(this.context.now);
    this.session.given(lock, leftUs, saysNothing(held));
    this.planWork(lock);
    this.context.claimed(lock);
    this.watch(hold);
    this.host.claimed(lock);
  }

  private refused(hold: Hold, reason: string, error?: unknown): void {
    this.noteKept(hold.lock);
    this.session.judge.refused(hold.lock, error, this.context.now);
    this.stateOf(hold.lock).phase = 'failed';
    this.context.failed(hold.lock, reason);
    this.finish(hold);
  }

  private finish(hold: Hold): void {
    if (hold.over) return;
    hold.over = true;
    this.host.finished(hold.lock);
  }

  protected override release(lock: SimLock): void {
    const hold = this.holds.get(lock);
    if (hold === undefined || hold.over) return;
    this.context.called(Kind['release-call'], lock);
    this.session.judge.givesBack(lock, this.context.now);
    this.context.ended(lock, 'released');
    this.session.heldPauses.over(this.name, this.context.now);
    // No phase says so: what is sent for it may be sent bit by bit, and counts when it has returned.
    hold.releasing = true;
    const isAlone = [...this.open].every((it) => it === hold || !isOpen(it.lock));
    if (isAlone && !hold.extending) this.afterRelease.begins(hold, this.context.now);
    const done = this.session.opens(this, 'release');
    const { leave, held } = hold;
    this.enter(() => {
      if (leave !== null) {
        done();
        if (hold.throws) this.session.judge.threw(lock);
        leave();
        return;
      }
      follow(
        () => releaseOf(this.clientNow, held, hold.resource),
        done,
        () => this.released(hold),
        (error) => this.released(hold, error),
        () => this.isOver(hold),
      );
    });
  }

  private get clientNow(): LockUnderTest {
    return this.client instanceof Promise ? {} : (this.client ?? {});
  }

  private released(hold: Hold, error?: unknown): void {
    const { lock } = hold;
    if (hold.over) return;
    this.noteKept(lock);
    this.session.judge.gaveBack(lock, error, this.context.now);
    this.stateOf(lock).phase = 'released';
    this.context.ended(lock, 'released');
    this.context.released(lock);
    this.finish(hold);
  }

  protected override extend(lock: SimLock, ttlMs: number): void {
    const hold = this.holds.get(lock);
    if (hold === undefined || hold.over || hold.releasing || hold.extending || hold.leave !== null) return;
    if (lock.state.phase !== 'held' && lock.state.phase !== 'lost') return;
    const extension = extensionOf(this.clientNow, hold.held, ttlMs);
    if (extension === null) {
      this.context.outcome(Kind['not-extended'], lock, 'limit');
      return;
    }
    this.pauses++;
    const done = hold.extends(this.session.opens(this, 'extend'));
    const calledMs = this.wallMs();
    this.enter(() =>
      follow(
        extension,
        done,
        (held) => this.extended(hold, held, untilOf(calledMs, ttlMs)),
        (error) => this.context.outcome(Kind['not-extended'], lock, reasonOf(error)),
        () => this.isOver(hold) || hold.releasing,
      ),
    );
  }

  private extended(hold: Hold, held: unknown, otherwise: number): void {
    const { lock } = hold;
    if (held === false || held === null) {
      this.context.outcome(Kind['not-extended'], lock, 'lost');
      return;
    }
    if (typeof held === 'object') hold.held = held;
    hold.otherwise = otherwise;
    this.stateOf(lock).phase = 'held';
    this.stateOf(lock).hold.deadline = this.deadlineOf(hold);
    this.noteExtended(hold);
    this.watch(hold);
    this.host.claimed(lock);
  }

  private noteExtended({ lock, extensions }: Hold): void {
    this.session.seen.extension = true;
    this.context.extended(lock, extensions.by ?? undefined);
  }

  protected override remaining(lock: SimLock): number {
    return lock.believes(this.context.now) ? lock.state.hold.deadline - this.clock.read(this.context.now) : 0;
  }

  protected override lockTimer(): void {}

  override wake(subject: object, event: QueueEvent): boolean {
    return subject instanceof BeliefEnd ? this.beliefEnds(subject, event) : super.wake(subject, event);
  }

  private beliefEnds({ hold, event: armed }: BeliefEnd, event: QueueEvent): boolean {
    if (armed !== event || !hold.lock.believing) return false;
    if (this.clock.read(this.context.now) < hold.lock.state.hold.deadline) this.watch(hold);
    else this.believeNoMore(hold);
    return true;
  }

  override freeze(until: TrueTime, timersFirst: boolean): void {
    super.freeze(until, timersFirst);
    const isEndless = ({ lock }: Hold): boolean => lock.believing && lock.state.hold.deadline >= LONGEST_US;
    if ([...this.open].some(isEndless)) this.session.heldPauses.add(this.name, this.context.now, this.pausedUntil);
  }

  override die(): void {
    super.die();
    this.holds.clear();
    this.open.clear();
    this.afterRelease.ends();
    this.client = null;
  }

  override clockChanged(now: TrueTime): void {
    super.clockChanged(now);
    for (const hold of this.open) {
      if (!hold.lock.believing) continue;
      this.watch(hold);
      // One that counts by another clock than this ends at another time of this one from now on.
      this.readBelief(hold);
    }
  }
}
