import type { Judgement, Violation } from '../properties/index.js';
import { judge } from '../properties/judge.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { formatList, plural, wrap } from '../text/format.js';
import { type Hold, holdsOf } from './holds.js';
import { type Painter, PLAIN } from './painter.js';
import { claimsIn, type ReportContext } from './report-context.js';
import type { Row } from './row.js';
import { rowsOf } from './rows.js';
import { assumptionLines, outageSentence, violationSentence } from './story.js';
import { tableLines, WIDTH } from './table.js';
import { tokenNames } from './tokens.js';
import { configLine, propertyLabel } from './words.js';

/** A run taken apart for telling. */
export interface TimelineModel extends ReportContext {
  readonly judgement: Judgement;
  readonly rows: readonly Row[];
}

/** Takes a run apart; runs it again if its trace was not kept. */
export function tellingOf(schedule: Schedule, given: Judgement): TimelineModel {
  const judgement = given.run.trace.length > 0 ? given : judge(schedule, [], true);
  const { trace } = judgement.run;
  const claims = holdsOf(schedule, trace);
  const tokenName = tokenNames(trace);
  return { judgement, claims, tokenName, rows: rowsOf(schedule, trace, claims, tokenName) };
}

const MARKS: Readonly<Partial<Record<PropertyId, string>>> = {
  'no-stale-write': 'not held',
  'quorum-backed': 'no majority',
};

/** The row at which a violation begins, with the word beside it. */
export function markOf(
  violation: Violation | undefined,
  rows: readonly Row[],
  claims: readonly Hold[],
): { row: Row; text: string } | null {
  if (violation === undefined) return null;
  const { property, atUs, clients } = violation;
  const here = rows.filter((row) => row.atUs === atUs);
  if (property === 'mutual-exclusion') {
    const concerned = claimsIn(violation, claims);
    const row =
      here.find(
        (it) => it.kind === 'outcome' && concerned.some((claim) => claim.seq === it.seq && claim.fromUs === atUs),
      ) ?? here.findLast((it) => it.processes.some((name) => clients.includes(name)));
    return row === undefined ? null : { row, text: 'both' };
  }
  const own = here.find((it) => it.kind === 'write' && clients.includes(it.who)) ?? here.at(-1);
  if (own === undefined) return null;
  return { row: own, text: MARKS[property] ?? propertyLabel(property) };
}

/** Longer lists of what did not come about are cut short. */
const MOST_UNUSED = 20;

/** How a run is told. */
interface TimelineOptions {
  readonly paint?: Painter;
  /** Leaves out the middle of a table that is longer than this. Default: no limit. */
  readonly mostRows?: number;
  /** What of the schedule did not come about, to be named; where there is any, nothing is called safe. */
  readonly unused?: readonly string[];
}

/**
 * The whole of a run as a table, with a sentence for everything that went wrong in it. Violations of `quorum-backed` are
 * told of only where nothing worse happened.
 */
export function formatTimeline(schedule: Schedule, judgement: Judgement, options: TimelineOptions = {}): string {
  const { paint = PLAIN, unused = [] } = options;
  const telling = tellingOf(schedule, judgement);
  const { violations, outages, assumptionsBroken } = judgement;
  const grave = violations.filter((it) => it.property !== 'quorum-backed');
  const shown = grave.length > 0 ? grave : violations;
  const mark = markOf(shown[0], telling.rows, telling.claims);
  const lines = [...wrap(configLine(schedule), WIDTH - 2).map((line) => `  ${line}`), ''];
  if (telling.rows.length === 0) lines.push('  nothing happens');
  else {
    const columns = schedule.clients.map(({ id }) => id);
    const table = tableLines(telling.rows, telling.claims, { mark, columns, width: null, paint });
    lines.push(...shortened(table, options.mostRows ?? null, paint));
  }
  lines.push('');
  for (const violation of shown) {
    lines.push(...finding(propertyLabel(violation.property), violationSentence(violation, telling), paint));
  }
  for (const outage of outages) lines.push(...finding('availability', outageSentence(outage, telling), paint));
  if (violations.length === 0 && outages.length === 0) {
    const inconclusive = '  ? inconclusive   Nothing was violated, but not all of the schedule came about.';
    lines.push(unused.length > 0 ? inconclusive : `  ${paint.good('✓ safe')}   Nothing was violated.`);
  }
  lines.push(...unusedLines(unused));
  const assumed =
    assumptionsBroken.length === 0
      ? 'The schedule keeps all assumptions of the lock.'
      : `Assumptions of the lock that the schedule breaks: ${formatList(assumptionLines(judgement))}.`;
  lines.push(...wrap(assumed, WIDTH - 2).map((line) => `  ${line}`));
  return `${lines.join('\n')}\n`;
}

function finding(title: string, sentence: string, paint: Painter): string[] {
  const name = `✗ ${title}`;
  if (name.length + sentence.length + 5 <= WIDTH) return [`  ${paint.bad(name)}   ${sentence}`];
  return [`  ${paint.bad(name)}`, ...wrap(sentence, WIDTH - 4).map((line) => `    ${line}`)];
}

function unusedLines(unused: readonly string[]): string[] {
  const left = unused.length - MOST_UNUSED;
  const more = left > 0 ? [`… ${plural(left, 'line')} left out (--json has everything)`] : [];
  return [...unused.slice(0, MOST_UNUSED), ...more].map((it, i) => `  ${i === 0 ? 'not used' : '        '}   ${it}`);
}

function shortened(table: readonly string[], mostRows: number | null, paint: Painter): string[] {
  if (mostRows === null || table.length - 1 <= mostRows) return [...table];
  const half = Math.floor(mostRows / 2);
  const left = table.length - 1 - 2 * half;
  const note = paint.dim(`  … ${plural(left, 'line')} left out (--format json has everything)`);
  return [...table.slice(0, half + 1), note, ...table.slice(table.length - half)];
}
