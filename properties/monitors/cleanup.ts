import {
  type Answer,
  type Command,
  has,
  members,
  NO_NODES,
  type NodeSet,
  nodeName,
  oneNode,
  union,
  without,
} from '../../core/index.js';
import type { LockRun, TrueTime } from '../../sim/index.js';
import { instant, type Report } from './instant.js';
import type { Use } from './ledger.js';

const NEVER_SENT = 'where it never sent a release';

/** Nodes of one attempt that is over. */
interface Overtaken {
  /** Those that set its key after a release, and were sent none since. */
  keys: NodeSet;
  /** Those of which its client has heard that they granted, that a release found nothing, and that one deleted its key. */
  grants: NodeSet;
  nothing: NodeSet;
  deleted: NodeSet;
}

/**
 * Liveness: once an attempt has failed or its lock was given back, no key of it is on a node that was never sent a
 * release. What the network does to a release is nobody's fault; that none was sent keeps everybody else out until the
 * TTL is over. Nor is it on a node whose release came before its SET, once its client has heard of both: it knows then
 * that it has to release it again.
 */
export class Cleanup {
  private readonly told = new Set<Use>();
  private readonly overtaken = new Map<Use, Overtaken>();
  private readonly report: Report;

  constructor(report: Report) {
    this.report = report;
  }

  /** The attempt is over, and what is sent on that account has been sent. */
  ended(use: Use, now: TrueTime): void {
    if (use.over) return;
    use.over = true;
    const left = without(use.holding, use.released);
    if (left !== NO_NODES) this.tell(use, members(left).map(nodeName).join(', '), now, NEVER_SENT);
  }

  /** A node sets a key late. */
  keySet(use: Use, node: number, now: TrueTime): void {
    if (!use.over) return;
    if (!has(use.released, node)) this.tell(use, nodeName(node), now, NEVER_SENT);
    else if (has(use.emptied, node)) this.of(use).keys = union(this.of(use).keys, oneNode(node));
  }

  /** Its client sends releases: what it heard before says nothing of what those will find. */
  released(use: Use, to: NodeSet): void {
    const it = this.overtaken.get(use);
    if (it === undefined) return;
    it.keys = without(it.keys, to);
    it.grants = without(it.grants, to);
    it.nothing = without(it.nothing, to);
  }

  /** The client of an attempt that is over has heard an answer to its SET or release, and has done what it does then. */
  answered(use: Use, node: number, operation: Command['operation'], answer: Answer, now: TrueTime): void {
    const from = oneNode(node);
    const it = this.of(use);
    if (operation === 'release' && answer === 'yes') it.deleted = union(it.deleted, from);
    else if (operation === 'release' && answer === 'no') it.nothing = union(it.nothing, from);
    else if (operation === 'acquire' && answer === 'yes') it.grants = union(it.grants, from);
    const known = without((it.grants & it.nothing) as NodeSet, it.deleted);
    const left = (it.keys & known & use.holding) as NodeSet;
    if (has(left, node)) this.tell(use, nodeName(node), now, 'though it knows that its SET came after its release');
  }

  private of(use: Use): Overtaken {
    let it = this.overtaken.get(use);
    if (it === undefined) {
      it = { keys: NO_NODES, grants: NO_NODES, nothing: NO_NODES, deleted: NO_NODES };
      this.overtaken.set(use, it);
    }
    return it;
  }

  private tell(use: Use, nodes: string, now: TrueTime, why: string): void {
    if (this.told.has(use)) return;
    this.told.add(use);
    const detail = `${nameOf(use.lock)} leaves its key on ${nodes}, ${why}`;
    this.report(instant('cleanup', 'liveness', [use.lock], now, detail));
  }
}

function nameOf(lock: LockRun): string {
  return lock.client.name;
}
