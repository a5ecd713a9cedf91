import type { ClientPlan, Fate, Fault, LockPlan, Schedule } from '../../scenarios/index.js';
import { nodeName } from '../../sim/index.js';
import type { ScheduleBody } from '../arbitraries/schedule.js';
import { bodyOf, withBody } from '../schedule-body.js';
import { setupPiecesOf } from './setup-pieces.js';
import { sparableNodes, withoutNode } from './without-node.js';

/** What a piece of a schedule is. */
export type PieceKind = 'client' | 'node' | 'fault' | 'message' | 'clock' | 'operation' | 'detail';

/** A part of a schedule that can be left out, and what is left then. */
export interface Piece {
  readonly kind: PieceKind;
  /** In the words of a report: `c3`, `crash of n2 at 3 ms`. */
  readonly name: string;
  readonly without: () => Schedule;
}

/** Everything in a schedule that can be left out by itself, the greatest first. */
export function piecesOf(schedule: Schedule): Piece[] {
  const { clients, faults, fates, clocks } = bodyOf(schedule);
  const piece = (kind: PieceKind, name: string, part: Partial<ScheduleBody>): Piece => ({
    kind,
    name,
    without: () => withBody(schedule, { clients, faults, fates, clocks, ...part }),
  });
  return [
    ...(clients.length < 2 ? [] : clients.map(({ id }, i) => piece('client', id, { clients: at(clients, i) }))),
    ...faults.map((fault, i) => piece('fault', faultName(fault), { faults: at(faults, i) })),
    ...sparableNodes(schedule).map(
      (node): Piece => ({ kind: 'node', name: nodeName(node), without: () => withoutNode(schedule, node) }),
    ),
    ...clients.flatMap((client, c) =>
      lockPieces(client).map(({ name, locks, gone }) =>
        piece('operation', name, {
          clients: put(clients, c, { ...client, locks }),
          fates: gone === undefined ? fates : fates.flatMap((fate) => withoutLock(fate, client.id, gone)),
        }),
      ),
    ),
    ...fates.map((fate, i) => piece('message', fateName(fate), { fates: at(fates, i) })),
    ...fates.flatMap((fate, i) =>
      fate.duplicateDelayUs === undefined || (fate.lost !== true && fate.delayUs === undefined)
        ? []
        : [piece('message', `copy of the ${messageName(fate)}`, { fates: put(fates, i, single(fate)) })],
    ),
    ...clocks.map(({ process }, i) => piece('clock', `clock error of ${process}`, { clocks: at(clocks, i) })),
    ...setupPiecesOf(schedule).map((it): Piece => ({ kind: 'detail', ...it })),
    ...faults.flatMap((fault, i) =>
      smallerFaults(fault).map(({ name, fault: smaller }) =>
        piece('detail', name, { faults: put(faults, i, smaller) }),
      ),
    ),
  ];
}

/** A list without the item at a place. */
function at<T>(list: readonly T[], place: number): T[] {
  return list.filter((_, i) => i !== place);
}

function put<T>(list: readonly T[], place: number, item: T): T[] {
  return list.map((it, i) => (i === place ? item : it));
}

/** The fate of a message when a lock is left out: gone with it, or of a lock that has moved up. */
function withoutLock(fate: Fate, client: string, gone: number): Fate[] {
  const { lock = 0 } = fate;
  if (fate.client !== client || lock < gone) return [fate];
  return lock === gone ? [] : [{ ...fate, lock: lock - 1 }];
}

/** A client with less to do; `gone` is the lock that is left out, if it is a whole one. */
interface LessWork {
  readonly name: string;
  readonly locks: LockPlan[];
  readonly gone?: number;
}

/** The operations of a client: its locks, and what it does with each. */
function lockPieces({ id, locks }: ClientPlan): LessWork[] {
  const which = (i: number): string => (locks.length === 1 ? `the lock of ${id}` : `lock ${i + 1} of ${id}`);
  return [
    ...locks.map((_, i) => ({ name: which(i), locks: at(locks, i), gone: i })),
    ...locks.flatMap((lock, i) =>
      smallerLocks(lock).map(({ name, lock: smaller }) => ({
        name: `${name} of ${which(i)}`,
        locks: put(locks, i, smaller),
      })),
    ),
  ];
}

function smallerLocks(lock: LockPlan): { readonly name: string; readonly lock: LockPlan }[] {
  const { extensions, writes, resources, jitterPpm, holdUs } = lock;
  return [
    ...(holdUs === null ? [] : [{ name: 'the release', lock: { ...lock, holdUs: null } }]),
    ...extensions.map((_, i) => ({ name: `extension ${i + 1}`, lock: { ...lock, extensions: at(extensions, i) } })),
    ...writes.map((_, i) => ({ name: `write ${i + 1}`, lock: { ...lock, writes: at(writes, i) } })),
    ...(resources.length < 2
      ? []
      : resources.map((it, i) => ({ name: `resource ${it}`, lock: { ...lock, resources: at(resources, i) } }))),
    ...(jitterPpm.length === 0 ? [] : [{ name: 'the jitter', lock: { ...lock, jitterPpm: [] } }]),
  ];
}

/** What a fault may leave out and still be one. */
const DISPENSABLE = ['edge', 'power', 'ageUs'] as const;

function smallerFaults(fault: Fault): { readonly name: string; readonly fault: Fault }[] {
  const fields = fault as unknown as Readonly<Record<string, unknown>>;
  const name = faultName(fault);
  const less: { readonly name: string; readonly fault: Fault }[] = [];
  for (const field of DISPENSABLE) {
    if (fields[field] === undefined) continue;
    const { [field]: _left, ...rest } = fields;
    less.push({ name: `the ${field} of the ${name}`, fault: rest as unknown as Fault });
  }
  for (const [field, value] of Object.entries(fields)) {
    // With other nodes to talk to it would be another membership.
    if (!Array.isArray(value) || value.length < 2 || fault.kind === 'reconfigure') continue;
    for (const [i, item] of value.entries()) {
      less.push({ name: `${item} in the ${name}`, fault: { ...fields, [field]: at(value, i) } as unknown as Fault });
    }
  }
  return less;
}

/** `crash of n2 at 3 ms`. */
export function faultName(fault: Fault): string {
  const fields = fault as unknown as Readonly<Record<string, unknown>>;
  const subject = [fields.node, fields.process, fields.client, fields.from].find((it) => it !== undefined);
  const who = subject === undefined ? '' : ` of ${Array.isArray(subject) ? subject.join(', ') : subject}`;
  return `${fault.kind}${who} at ${fault.atUs / 1000} ms`;
}

/** `acquire from c1 to n3`. */
export function messageName({ client, operation, node, direction }: Fate): string {
  return direction === 'request'
    ? `${operation} from ${client} to ${node}`
    : `answer to ${operation} from ${node} to ${client}`;
}

function fateName(fate: Fate): string {
  const extra = fate.resendAfterUs === undefined ? 'copy' : 'repetition';
  const what = fate.lost === true ? 'loss' : fate.delayUs === undefined ? extra : 'delay';
  return `${what} of the ${messageName(fate)}`;
}

/** A fate without its copy. */
function single({ duplicateDelayUs: _copy, ...fate }: Fate): Fate {
  return fate;
}
