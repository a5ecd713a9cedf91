import type { Judgement, Outage, Violation } from '../properties/index.js';
import { formatDurationMs } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { formatList } from '../text/format.js';
import { numberOf } from './details.js';
import type { Hold } from './holds.js';
import type { ReportContext } from './report-context.js';
import { lateWriteCause, lostCounters, outageCause, reason } from './why.js';
import { ASSUMPTION_WORDS } from './words.js';

/** What a schedule breaks of the assumptions of the lock, in words; empty if nothing. */
export function assumptionLines(judgement: Pick<Judgement, 'assumptionsBroken'>): string[] {
  return judgement.assumptionsBroken.map((it) => `${it} (${ASSUMPTION_WORDS[it]})`);
}

/** Violations of `quorum-backed` are told of only where nothing worse happened. */
export function mostSevere(violations: readonly Violation[]): readonly Violation[] {
  const grave = violations.filter((it) => it.property !== 'quorum-backed');
  return grave.length > 0 ? grave : violations;
}

/** Why something went wrong, without a full stop; empty if the trace does not tell. */
export function violationCause(violation: Violation, told: ReportContext): string {
  switch (violation.property) {
    case 'mutual-exclusion':
    case 'quorum-backed':
    case 'loss-notified':
      return reason(violation, told);
    case 'no-stale-write': {
      const { claim, write } = lateWrite(violation, told);
      return claim === undefined || write === undefined ? '' : lateWriteCause(claim, write, told);
    }
    case 'fencing':
      return lostCounters(violation.atUs, told);
    default:
      return '';
  }
}

/** One sentence on a violation: who, how long, and why if that can be told. */
export function violationSentence(violation: Violation, told: ReportContext): string {
  const { resource, clients, atUs, untilUs } = violation;
  const lastsUs = (untilUs ?? atUs) - atUs;
  // A run that is stepped through ends as soon as something goes wrong.
  const hasJustBegun = lastsUs <= 1 && untilUs === told.endUs;
  const length = hasJustBegun ? 'as the run ends' : `for ${formatDurationMs(lastsUs)} ms`;
  const because = behind(violationCause(violation, told));
  switch (violation.property) {
    case 'mutual-exclusion':
      return new Set(clients).size === 1
        ? `${formatList(clients.slice(0, 1))} held ${resource} twice ${length}${because}`
        : `${clients.join(' and ')} both held ${resource} ${length}${because}`;
    case 'quorum-backed':
      return `${inMs(violation.detail)}, ${length}${because}`;
    case 'no-stale-write':
      return writeSentence(violation, told);
    case 'loss-notified':
      return `${inMs(violation.detail)}${because}`;
    case 'fencing':
      return `${violation.detail}${because}`;
    default:
      // What is wrong is all in what the client or the command did itself.
      return `${inMs(violation.detail)}.`;
  }
}

function behind(why: string): string {
  return why === '' ? '.' : `: ${why}.`;
}

/** Monitors count in microseconds; people read milliseconds. */
function inMs(detail: string): string {
  return detail.replaceAll(/(-?\d+) us\b/g, (_, us: string) => `${formatDurationMs(Number(us))} ms`);
}

/** The write that was late, and the claim that it was made under. */
function lateWrite(
  violation: Violation,
  { claims, judgement }: ReportContext,
): { readonly write: TraceEvent | undefined; readonly claim: Hold | undefined } {
  const [client = '?'] = violation.clients;
  const write = judgement.run.trace.find(
    (it) => it.kind === 'write-arrived' && it.process === client && it.atUs === violation.atUs && it.detail.stale === 1,
  );
  const lock = write === undefined ? undefined : numberOf(write, 'lock');
  const claim = claims.findLast(
    (it) => it.client === client && it.fromUs <= violation.atUs && (lock === undefined || it.lock === lock),
  );
  return { write, claim };
}

function writeSentence(violation: Violation, told: ReportContext): string {
  const [client = '?'] = violation.clients;
  const { claim } = lateWrite(violation, told);
  const late = claim === undefined ? '' : `${formatDurationMs(violation.atUs - claim.endUs)} ms `;
  const others = told.claims.filter((it) => it !== claim && it.fromUs <= violation.atUs && violation.atUs < it.endUs);
  const holders = others.map((it) => (it.client === client ? `${client} itself` : it.client));
  const meanwhile = others.length === 0 ? '' : `, while ${formatList(holders)} held it`;
  const when = late.startsWith('0 ') ? 'as its claim ended' : `${late}after its claim had ended`;
  return `A write of ${client} reached ${violation.resource} ${when}${meanwhile}${behind(violationCause(violation, told))}`;
}

/** One sentence on a time in which nobody could acquire. */
export function outageSentence(outage: Outage, told: ReportContext): string {
  const length = formatDurationMs(outage.toUs - outage.fromUs);
  return `Nobody could acquire for ${length} ms, from ${formatDurationMs(outage.fromUs)} on: ${outageCause(outage, told)}.`;
}
