import { LONGEST_US } from '../core/index.js';
import type { Outage, Violation } from '../properties/index.js';
import { formatDurationMs } from '../scenarios/index.js';
import type { Hold } from './holds.js';
import { claimsIn, type ReportContext } from './report-context.js';
import { violationCause } from './story.js';
import { outageCause } from './why.js';

/** What everybody asks of a run in which something went wrong; texts for readers. */
export interface Answers {
  /** Who held the lock, with times: `c1, 2 to 9 898 ms`. `nobody` if so. */
  readonly holder: string;
  /** Who else did. */
  readonly other: string;
  /** From when to when it went wrong. */
  readonly when: string;
  readonly why: string;
}

/** The answers on the first violation, or the first time in which nobody could acquire; `null` where nothing went wrong. */
export function answersOf(
  violation: Violation | undefined,
  outage: Outage | undefined,
  told: ReportContext,
): Answers | null {
  if (violation !== undefined) {
    const [first, second = otherThan(first, violation, told)] = claimsIn(violation, told.claims);
    const toUs = violation.untilUs ?? violation.atUs;
    return {
      holder: first === undefined ? 'nobody' : holdWords(first),
      other: second === undefined ? 'nobody' : holdWords(second),
      when: toUs > violation.atUs ? spanWords(violation.atUs, toUs) : `at ${formatDurationMs(violation.atUs)} ms`,
      why: violationCause(violation, told) || 'what is above is all that the trace tells',
    };
  }
  if (outage === undefined) return null;
  return {
    holder: 'nobody',
    other: 'nobody',
    when: spanWords(outage.fromUs, outage.toUs),
    why: outageCause(outage, told),
  };
}

/** Who held the same lock at the instant of a violation that names one client alone. */
function otherThan(
  first: Hold | undefined,
  { atUs, resource }: Violation,
  { claims }: ReportContext,
): Hold | undefined {
  return claims.find((it) => it !== first && it.resources.includes(resource) && it.fromUs <= atUs && atUs < it.endUs);
}

function holdWords({ client, fromUs, endUs }: Hold): string {
  return `${client}, ${spanWords(fromUs, endUs)}`;
}

function spanWords(fromUs: number, toUs: number): string {
  if (toUs > LONGEST_US / 2) return `from ${formatDurationMs(fromUs)} ms on`;
  return `${formatDurationMs(fromUs)} to ${formatDurationMs(toUs)} ms`;
}
