import type { Answer, Command, NodeSet } from '../../core/index.js';
import type { GoneCause, LockRun, Setup, TrueTime } from '../../sim/index.js';
import { Acquisition } from './acquisition.js';
import { Cleanup } from './cleanup.js';
import { Continuity } from './continuity.js';
import { Extension } from './extension.js';
import type { Report } from './instant.js';
import { Ledger } from './ledger.js';
import { LostLock } from './lost-lock.js';
import { ReleaseOwn } from './release-own.js';
import { ReleaseQuorum } from './release-quorum.js';
import { TokenUnique } from './token-unique.js';

/** The monitors of what clients and nodes have to do one by one, with the ledger that they share. */
export class Protocol {
  private readonly ledger = new Ledger();
  private readonly acquisition: Acquisition;
  private readonly extension: Extension;
  private readonly continuity: Continuity;
  private readonly lostLock: LostLock;
  private readonly tokenUnique: TokenUnique;
  private readonly releaseOwn: ReleaseOwn;
  private readonly releaseQuorum: ReleaseQuorum;
  private readonly cleanup: Cleanup;

  constructor({ policy, cluster }: Setup, report: Report, ownerOf: (token: number) => LockRun | null) {
    this.acquisition = new Acquisition(policy, cluster.nodes, report);
    this.extension = new Extension(policy, cluster.nodes, report);
    this.continuity = new Continuity(report);
    this.lostLock = new LostLock(cluster.nodes, report);
    this.tokenUnique = new TokenUnique(report);
    this.releaseOwn = new ReleaseOwn(report, ownerOf);
    this.releaseQuorum = new ReleaseQuorum(report);
    this.cleanup = new Cleanup(report);
  }

  sent(lock: LockRun, to: NodeSet, command: Command, now: TrueTime): void {
    const { ledger } = this;
    const { operation, attempt } = command;
    const token = command.token as number;
    let use = ledger.of(token);
    if (operation === 'acquire' && (use === undefined || use.lock !== lock || use.attempt !== attempt)) {
      const last = ledger.latestOf(lock);
      if (last !== undefined) this.cleanup.ended(last, now);
      this.tokenUnique.begun(lock, attempt, use, now);
      use = ledger.begin(lock, token, attempt, now);
    }
    if (use === undefined) return;
    ledger.sent(use, to, command, now);
    // Else it is the clean-up of a failed attempt, or a second release of a node that was slow.
    if (operation !== 'release' || use.over || lock.state.phase !== 'releasing') return;
    this.releaseQuorum.released(use, now);
    this.cleanup.ended(use, now);
  }

  executed(node: number, command: Command, answer: Answer): void {
    this.ledger.executed(node, command, answer);
  }

  claimed(lock: LockRun, now: TrueTime): void {
    const use = this.ledger.of(lock.token);
    if (use !== undefined) this.acquisition.claimed(lock, use, now);
    this.continuity.claimed(lock);
  }

  extended(lock: LockRun, now: TrueTime): void {
    const use = this.ledger.of(lock.token);
    if (use !== undefined) {
      this.extension.extended(lock, use, now);
      this.lostLock.extended(lock, use, now);
    }
    this.continuity.extended(lock, now);
  }

  failed(lock: LockRun, now: TrueTime): void {
    const use = this.ledger.of(lock.token);
    if (use !== undefined) this.cleanup.ended(use, now);
  }

  keySet(node: number, token: number, now: TrueTime): void {
    const use = this.ledger.keySet(node, token);
    if (use?.over) this.cleanup.keySet(use, node, now);
  }

  keyGone(node: number, token: number, cause: GoneCause, by: number, now: TrueTime): void {
    this.releaseOwn.keyGone(node, token, cause, by, now);
    const use = this.ledger.keyGone(node, token);
    if (use?.lock.believing) this.lostLock.keyGone(use, token, now);
  }
}
