import { formatCounterexample } from '../report/index.js';
import type { Schedule } from '../scenarios/index.js';
import { decidedBy } from './frames.js';
import type { LockFactory } from './lock-factory.js';
import { bytesOf } from './net/byte-log.js';
import { type LibraryRunOptions, replayLibraries } from './run.js';
import { kindOf, type ViolationKind } from './search/kinds.js';
import { explainForLibrary, judgementOf } from './search/shrink-libraries.js';
import type { Seen } from './seen.js';

/** Where a failure was found, and how to see it again. */
interface FoundWhere {
  readonly run: number;
  readonly runs: number;
  /** `null` for a schedule that somebody gave. */
  readonly seed: string | null;
  readonly foundEvents: number;
  /** `null` if its file could not be written. */
  readonly replay: string | null;
  /** The path of its page, if there is one. */
  readonly report?: string;
  /** What shows the lines that there is no room for. Default `replay`. */
  readonly showsAll?: string;
  /** Tries after which shrinking gave up, if it did. */
  readonly shrinkingEndedAfter?: number;
  /** How the client is tried on one node only, if that can be asked for. */
  readonly onOneNode?: string;
}

/**
 * A failure of a library in at most twenty lines, one more where it may not be minimal, and one for a client that seems to be
 * made for a single node. What it needs is said of the pieces that were left out one by one.
 */
export async function counterexample(
  subject: LockFactory,
  schedule: Schedule,
  kind: ViolationKind,
  where: FoundWhere,
  options: LibraryRunOptions = {},
): Promise<string> {
  const run = await replayLibraries(subject, schedule, { ...options, trace: true });
  const violation = run.violations.find((it) => kindOf(it) === kind);
  if (violation === undefined) return 'the schedule no longer fails\n';
  const judgement = judgementOf(schedule, run);
  const { shrinkingEndedAfter: tried } = where;
  // To leave out each piece of a schedule that has not been made small takes as long as that, and says little.
  const explained = tried === undefined ? await explainForLibrary(subject, schedule, kind, options) : [];
  const { events } = run.run;
  const text = formatCounterexample({
    schedule,
    judgement,
    violation,
    preventions: null,
    lock: 'foreign',
    ...(subject.members === undefined ? {} : { culprit: 'the two together' }),
    explained,
    events,
    decidedBy: decidedBy(violation, run.run.trace, run.frames),
    ...where,
  });
  const ended = tried === undefined ? '' : `  shrinking ended after ${tried} tries: something may still be left out\n`;
  return text + bytesOf(run.bytes, violation) + ended + hintOf(subject, where);
}

/** Of clients that have asked one node only. */
export function askedOne({ nodesGiven }: Seen): string {
  return `no client has ever asked more than one of its ${nodesGiven} nodes`;
}

function hintOf({ seen }: LockFactory, { onOneNode }: FoundWhere): string {
  if (onOneNode === undefined || seen.nodesAsked !== 1 || seen.nodesGiven < 2) return '';
  return `  ${askedOne(seen)}; did you mean ${onOneNode}?\n`;
}
