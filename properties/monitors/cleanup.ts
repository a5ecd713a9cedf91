import {
  type Answer,
  type Command,
  has,
  members,
  NO_NODES,
  type NodeSet,
  oneNode,
  union,
  without,
} from '../../core/index.js';
import { nodeName, type SimLock, type TrueTime } from '../../sim/index.js';
import type { AttemptRecord } from './attempt-registry.js';
import { instant, type Report } from './instant.js';
import { empty } from './remove.js';

const NEVER_SENT = 'where it never sent a release';

/**
 * Liveness: once an attempt has failed or its lock was released, no key of it is on a node that was never sent a
 * release. What the network does to a release is nobody's fault; that none was sent keeps everybody else out until the
 * TTL is over. Nor is it on a node whose release came before its SET, once its client has heard of both: it knows then
 * that it has to release it again. An extension sets no key where the release has been carried out: a client that extends has
 * no business with a key that is not there, unless it is to heal, and what it sets late is released once more.
 */
export class Cleanup {
  /** Whether any attempt of this run was overtaken: nearly none is. */
  anyOvertaken = false;
  private readonly told: AttemptRecord[] = [];
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** For another run. */
  reset(): void {
    empty(this.told);
    this.anyOvertaken = false;
  }

  /** The attempt is over, and what is sent on that account has been sent. */
  ended(use: AttemptRecord, now: TrueTime): void {
    if (use.over) return;
    use.over = true;
    const left = without(use.holding, use.released);
    if (left !== NO_NODES) this.tell(use, members(left).map(nodeName).join(', '), now, NEVER_SENT);
  }

  /** A node sets a key late; `isExtension` if that is what an extension did, which finds none to extend. */
  keySet(use: AttemptRecord, node: number, isExtension: boolean, now: TrueTime): void {
    if (!use.over) return;
    if (!has(use.released, node)) this.tell(use, nodeName(node), now, NEVER_SENT);
    else if (isExtension && has(use.emptied, node))
      this.tell(use, nodeName(node), now, 'where its extension set it after the release');
    else if (has(use.emptied, node)) {
      use.overtaken = union(use.overtaken, oneNode(node));
      this.anyOvertaken = true;
    }
  }

  /** Its client sends releases: what it heard before says nothing of what those will find. */
  released(use: AttemptRecord, to: NodeSet): void {
    use.overtaken = without(use.overtaken, to);
    use.heardGrant = without(use.heardGrant, to);
    use.heardNothing = without(use.heardNothing, to);
  }

  /** The client of an attempt that is over hears an answer to its SET or release, and may yet send another release. */
  hears(use: AttemptRecord, node: number, operation: Command['operation'], answer: Answer): void {
    const from = oneNode(node);
    if (operation === 'release' && answer === 'yes') use.heardDeleted = union(use.heardDeleted, from);
    else if (operation === 'release' && answer === 'no') use.heardNothing = union(use.heardNothing, from);
    else if (operation === 'acquire' && answer === 'yes') use.heardGrant = union(use.heardGrant, from);
  }

  /** It has done what it does when it has heard that. */
  answered(use: AttemptRecord, node: number, now: TrueTime): void {
    if (!has(use.overtaken, node)) return;
    const known = without((use.heardGrant & use.heardNothing) as NodeSet, use.heardDeleted);
    const left = (use.overtaken & known & use.holding) as NodeSet;
    if (has(left, node)) this.tell(use, nodeName(node), now, 'though it knows that its SET came after its release');
  }

  private tell(use: AttemptRecord, nodes: string, now: TrueTime, why: string): void {
    if (this.told.includes(use)) return;
    this.told.push(use);
    const detail = `${nameOf(use.lock)} leaves its key on ${nodes}, ${why}`;
    this.report(instant('cleanup', 'liveness', [use.lock], now, detail));
  }
}

function nameOf(lock: SimLock): string {
  return lock.client.name;
}
