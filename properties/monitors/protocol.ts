import type { Answer, Command, NodeSet } from '../../core/index.js';
import { deviates, type Policy, releasesInTurn } from '../../deviations/index.js';
import type { KeyRemovalCause, Setup, SimLock, TrueTime } from '../../sim/index.js';
import { Acquisition } from './acquisition.js';
import type { AttemptRecord, AttemptRegistry } from './attempt-registry.js';
import { Cleanup } from './cleanup.js';
import { Continuity } from './continuity.js';
import { Extension } from './extension.js';
import { Fencing } from './fencing.js';
import type { Report } from './instant.js';
import { LossNotified } from './loss-notified.js';
import { OwnerOnlyRelease } from './owner-only-release.js';
import { ReleaseToAll } from './release-to-all.js';
import { UniqueToken } from './unique-token.js';

/** What others want to know of the uses of tokens. */
interface UseListener {
  /** A key that nobody has any use for has come to a node (`null`), or has gone. */
  orphanChanged(use: AttemptRecord, node: number, key: number, cause: KeyRemovalCause | null, now: TrueTime): void;
  /** An attempt is about to begin with a token that was used before: keys with it are its own then. */
  takesOver(now: TrueTime): void;
  /** Keys that nobody had any use for are another's now, who has begun with the same token. */
  takenOver(use: AttemptRecord, now: TrueTime): void;
  /** An attempt has failed, or its lock was released. */
  over(use: AttemptRecord, now: TrueTime): void;
  /** The release of a lock is called. */
  releasing(lock: SimLock, now: TrueTime): void;
}

/** The monitors of what clients and nodes have to do one by one; they keep the ledger that others look things up in. */
export class Protocol {
  private policy: Policy | null = null;
  private atOnce = true;
  /** What an extension sets after its release is released once more. */
  private heals = false;
  private readonly ledger: AttemptRegistry;
  private readonly listener: UseListener;
  private readonly acquisition: Acquisition;
  private readonly extension: Extension;
  private readonly continuity: Continuity;
  private readonly lossNotified: LossNotified;
  private readonly uniqueToken: UniqueToken;
  private readonly ownerOnlyRelease: OwnerOnlyRelease;
  private readonly releaseToAll: ReleaseToAll;
  private readonly cleanup: Cleanup;
  private readonly fencing: Fencing;
  /** The command that a node is carrying out. */
  private executing: Command | null = null;

  constructor(
    setup: Setup,
    ledger: AttemptRegistry,
    listener: UseListener,
    report: Report,
    ownerOf: (token: number) => SimLock | null,
  ) {
    const { policy } = setup;
    this.configure(policy);
    this.ledger = ledger;
    this.listener = listener;
    this.acquisition = new Acquisition(policy, report);
    this.extension = new Extension(policy, report);
    this.continuity = new Continuity(report);
    this.lossNotified = new LossNotified(report);
    this.uniqueToken = new UniqueToken(report);
    this.ownerOnlyRelease = new OwnerOnlyRelease(report, ownerOf);
    this.releaseToAll = new ReleaseToAll(report);
    this.cleanup = new Cleanup(report);
    this.fencing = new Fencing(setup, report);
  }

  private configure(policy: Policy): void {
    if (policy === this.policy) return;
    this.policy = policy;
    this.atOnce = !releasesInTurn(policy);
    this.heals = deviates(policy, 'extension-heals') && !deviates(policy, 'late-grants-stay');
  }

  /** For another run. */
  reset(setup: Setup): void {
    const { policy } = setup;
    this.configure(policy);
    this.executing = null;
    this.acquisition.reset(policy);
    this.extension.reset(policy);
    this.continuity.reset();
    this.lossNotified.reset();
    this.ownerOnlyRelease.reset();
    this.cleanup.reset();
    this.fencing.reset(setup);
  }

  sent(lock: SimLock, to: NodeSet, command: Command, now: TrueTime): void {
    const { ledger } = this;
    const { operation, attempt } = command;
    const token = command.token as number;
    let use = ledger.of(token, lock);
    if (operation === 'acquire' && use?.attempt !== attempt) {
      const last = ledger.latestOf(lock);
      if (last !== undefined) this.over(last, now, last !== use);
      use = this.begin(lock, token, attempt, now);
    }
    this.fencing.sent(lock, command);
    if (use === undefined) return;
    ledger.sent(use, to, command, now);
    if (operation === 'release') this.cleanup.released(use, to);
    // Else it is the clean-up of a failed attempt, or a second release of a node that was slow.
    if (operation !== 'release' || use.over || lock.state.phase !== 'releasing') return;
    this.listener.releasing(lock, now);
    // Where releases are sent one after the other, the last is sent by the time that the call returns.
    if (this.atOnce) this.released(lock, now);
  }

  private begin(lock: SimLock, token: number, attempt: number, now: TrueTime): AttemptRecord {
    const { ledger } = this;
    const before = ledger.newestOf(token);
    if (before === undefined) return ledger.begin(lock, token, attempt, now);
    this.uniqueToken.begun(lock, attempt, before, now);
    this.listener.takesOver(now);
    const use = ledger.begin(lock, token, attempt, now);
    for (const other of ledger.earlierOf(token)) if (other.orphanedAt !== null) this.listener.takenOver(other, now);
    return use;
  }

  /** A lock was released, and what is sent on that account has been sent. */
  released(lock: SimLock, now: TrueTime): void {
    const use = this.ledger.of(lock.token, lock);
    if (use === undefined || use.over) return;
    this.releaseToAll.released(use, now);
    this.over(use, now);
  }

  /** `forGood` unless the next attempt goes on with the same token. */
  private over(use: AttemptRecord, now: TrueTime, forGood = true): void {
    if (use.over) return;
    this.cleanup.ended(use, now);
    if (forGood) this.listener.over(use, now);
  }

  executes(command: Command): void {
    this.executing = command;
  }

  executed(node: number, command: Command, answer: Answer, now: TrueTime): void {
    this.executing = null;
    this.ledger.executed(node, command, answer, now);
  }

  hears(lock: SimLock, node: number, command: Command, answer: Answer): void {
    const use = this.overUse(lock, command);
    if (use !== undefined) this.cleanup.hears(use, node, command.operation, answer);
  }

  answered(lock: SimLock, node: number, command: Command, now: TrueTime): void {
    if (!this.cleanup.anyOvertaken) return;
    const use = this.overUse(lock, command);
    if (use !== undefined) this.cleanup.answered(use, node, now);
  }

  private overUse(lock: SimLock, { attempt, token }: Command): AttemptRecord | undefined {
    const use = this.ledger.of(token as number, lock);
    return use?.over && use.attempt === attempt ? use : undefined;
  }

  claimed(lock: SimLock, now: TrueTime): void {
    const use = this.ledger.of(lock.token, lock);
    if (use !== undefined) this.acquisition.claimed(lock, use, now);
    this.continuity.claimed(lock);
    this.fencing.claimed(lock, now);
  }

  written(lock: SimLock, accepted: boolean, now: TrueTime): void {
    this.fencing.written(lock, accepted, now);
  }

  extended(lock: SimLock, now: TrueTime): void {
    const use = this.ledger.of(lock.token, lock);
    if (use !== undefined) {
      this.extension.extended(lock, use, now);
      this.lossNotified.extended(lock, use, now);
    }
    this.continuity.extended(lock, now);
  }

  /** A client gives its lock back, or the run is over, and it was not told of the end of its claim. */
  untold(lock: SimLock, now: TrueTime): void {
    this.lossNotified.check(lock, now);
  }

  failed(lock: SimLock, reason: string, now: TrueTime): void {
    this.fencing.failed(lock, reason, now);
    const use = this.ledger.of(lock.token, lock);
    if (use !== undefined) this.over(use, now);
  }

  keySet(node: number, key: number, token: number, now: TrueTime): void {
    const { ledger, executing } = this;
    const use = ledger.keySet(node, key, token);
    const sender = executing === null ? undefined : ledger.senderOf(executing);
    if (ledger.shares && sender !== undefined) this.ownerOnlyRelease.keySet(node, key, token, sender.lock);
    if (use === undefined) return;
    const isRevived = sender === use && executing?.operation === 'extend' && !this.heals;
    if (use.over) this.cleanup.keySet(use, node, isRevived, now);
    if (use.orphanedAt !== null) this.listener.orphanChanged(use, node, key, null, now);
  }

  keyGone(node: number, key: number, token: number, cause: KeyRemovalCause, by: number, now: TrueTime): void {
    const { ledger, executing } = this;
    const sender = executing === null || !ledger.shares ? undefined : ledger.senderOf(executing);
    if (by !== token || sender !== undefined)
      this.ownerOnlyRelease.keyGone({ node, key, token, cause, by }, sender?.lock ?? null, now);
    const use = ledger.keyGone(node, key, token);
    if (use === undefined) return;
    if (use.lock.believing) this.lossNotified.keyGone(use, token, now);
    if (use.parts !== null) this.othersLose(use, token, now);
    if (use.orphanedAt !== null) this.listener.orphanChanged(use, node, key, cause, now);
  }

  /** A key is gone that others have, too, who use the same token. */
  private othersLose(owner: AttemptRecord, token: number, now: TrueTime): void {
    for (const use of this.ledger.earlierOf(token))
      if (use !== owner && use.lock.believing) this.lossNotified.keyGone(use, token, now);
    const newest = this.ledger.newestOf(token);
    if (newest !== owner && newest?.lock.believing) this.lossNotified.keyGone(newest, token, now);
  }
}
