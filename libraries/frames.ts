import { relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Violation } from '../properties/index.js';
import type { TraceEvent } from '../sim/index.js';
import { isGreeting } from './net/segment.js';

/** A command, and the line of the client's author that sent it. */
export interface Frame {
  readonly client: string;
  readonly node: string;
  readonly said: string;
  /** µs of true time. */
  readonly sentUs: number;
  /** `src/my-lock.ts:42:17`; `null` where no line of the author is on the stack. */
  readonly where: string | null;
}

const DEEP = 40;
/** All of this project, or what is built of it. */
const HERE = fileURLToPath(new URL('..', import.meta.url));
const PLACE = /\(?((?:file:\/\/)?[^()\s]+:\d+:\d+)\)?$/;

/** The stack as it is now; it is not before it is read that it takes time. */
export function stackNow(): Error {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = DEEP;
  const error = new Error('where');
  Error.stackTraceLimit = limit;
  return error;
}

/** The innermost line on a stack that is neither Node's, nor a package's, nor of this project, which is `here`. */
export function authorsLine({ stack = '' }: Error, here: string = HERE): string | null {
  for (const line of stack.split('\n').slice(1)) {
    const place = PLACE.exec(line.trim())?.[1];
    if (place === undefined || place.startsWith('node:') || place.includes(`${sep}node_modules${sep}`)) continue;
    const path = place.startsWith('file://') ? fileURLToPath(place) : place;
    if (isOwn(path, here)) continue;
    return relative(process.cwd(), path);
  }
  return null;
}

/** Its tests and examples stand for those of others. */
function isOwn(path: string, here: string): boolean {
  return path.startsWith(here) && !/\.test\.|[\\/](?:testing|examples|wild)[\\/]/.test(path.slice(here.length - 1));
}

/** Failures in which somebody else's command may be what decided. */
const BY_OTHERS: readonly string[] = ['mutual-exclusion', 'quorum-backed', 'continuity'];

/**
 * The command that decided a violation, and where it comes from; `null` if nobody knows. It is the latest that has deleted
 * what was another's, where that may have been it; else the one that was carried out or answered last. What clients send by
 * themselves as they connect decides nothing.
 */
export function decidedBy(
  { property, clients, atUs }: Violation,
  trace: readonly TraceEvent[],
  frames: readonly Frame[],
): string | null {
  const isByOthers = BY_OTHERS.includes(property);
  const before = trace.filter((it) => it.atUs <= atUs);
  const isAbout = (client: unknown): boolean => isByOthers || clients.includes(String(client));
  const last =
    (isByOthers ? foreignDeletion(before)?.by : undefined) ??
    before.findLast(
      (it) =>
        (it.kind === 'execute' || it.kind === 'reply') && isAbout(it.detail.client) && !isGreetingSaid(it.detail.said),
    );
  const { client, node, said } = last?.detail ?? {};
  // What a client sends again when it has connected anew comes from no line: it is that of the first time.
  const frame = frames.findLast(
    (it) => it.client === client && it.node === node && it.said === said && it.sentUs <= atUs && it.where !== null,
  );
  return frame === undefined ? null : `${frame.where}   ${frame.said} of ${frame.client}`;
}

/** The latest loss of a key by another's command, which has deleted or overwritten it; and that command. */
export function foreignDeletion(trace: readonly TraceEvent[]): { gone: TraceEvent; by: TraceEvent } | undefined {
  for (let at = trace.length - 1; at >= 0; at--) {
    const gone = trace[at];
    if (gone?.kind !== 'key-gone' || (gone.detail.how !== 'deleted' && gone.detail.how !== 'overwritten')) continue;
    if (!isOfLock(gone, trace)) continue;
    const by = trace.slice(0, at).findLast((it) => it.kind === 'execute' && it.process === gone.process);
    if (by !== undefined && by.detail.client !== gone.detail.owner) return { gone, by };
  }
  return undefined;
}

/**
 * Whether this is the key of a lock that was claimed, or where none was, one that an acquisition has set. What locks guard uses others,
 * and one process may well write there what another wrote.
 */
export function isOfLock({ detail: { resource } }: TraceEvent, trace: readonly TraceEvent[]): boolean {
  const claimed = new Set(trace.filter(({ kind }) => kind === 'claim').map(({ detail }) => detail.token));
  const doing = new Map<string, unknown>();
  const [keys, asked] = [new Set<unknown>(), new Set<unknown>()];
  for (const { kind, process, detail } of trace) {
    if (kind === 'execute') doing.set(process, detail.operation);
    else if (kind === 'key-set' && claimed.has(detail.token)) keys.add(detail.resource);
    else if (kind === 'key-set' && doing.get(process) === 'acquire') asked.add(detail.resource);
  }
  const all = keys.size > 0 ? keys : asked;
  return all.size === 0 || all.has(resource);
}

/** Whether this is what clients send by themselves. */
export function isGreetingSaid(said: unknown): boolean {
  return typeof said === 'string' && isGreeting(said.split(/[ ;]/));
}
