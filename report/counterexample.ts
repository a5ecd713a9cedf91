import type { Judgement, Violation } from '../properties/index.js';
import type { Schedule } from '../scenarios/index.js';
import type { Explained } from '../search/index.js';
import { formatCount, plural, truncate, wrap } from '../text/format.js';
import type { Hold } from './holds.js';
import { neededWords } from './needed.js';
import { type Painter, PLAIN } from './painter.js';
import type { Prevention } from './prevention.js';
import { claimsIn } from './report-context.js';
import type { Row } from './row.js';
import { assumptionLines, violationSentence } from './story.js';
import { tableLines, WIDTH } from './table.js';
import { markOf, type TimelineModel, tellingOf } from './timeline.js';
import { configLine, propertyLabel } from './words.js';

/** How long the text of a counterexample is at most. */
export const MOST_LINES = 20;

/** What is told of a failure. */
interface CounterexampleText {
  readonly schedule: Schedule;
  readonly judgement: Judgement;
  readonly violation: Violation;
  /** Where it was found: the run, of how many, from which seed; and what shrinking did. */
  readonly run: number;
  /** `null` for no limit. */
  readonly runs: number | null;
  /** `null` for a schedule that no search found, but somebody gave. */
  readonly seed: string | null;
  readonly foundEvents: number;
  readonly events: number;
  /** `null` if none was tried. */
  readonly preventions: readonly Prevention[] | null;
  /** What happens without each of its pieces. Default: nothing is said. */
  readonly explained?: readonly Explained[];
  /** The line of a client's author that decided, and what it sent; `null` or nothing where that is not known. */
  readonly decidedBy?: string | null;
  /** The command that shows it again; `null` if its file could not be written. */
  readonly replay: string | null;
  /** Path of its HTML report, if there is one. */
  readonly report?: string | null;
  /** What shows the lines that there is no room for. Default `replay`. */
  readonly showsAll?: string;
  /** Whose lock the clients ran. Default `own`. */
  readonly lock?: 'own' | 'foreign';
  /** Whose bug it is if all assumptions are kept. Default `the lock`. */
  readonly culprit?: string;
  readonly paint?: Painter;
}

/** A failure in at most 20 lines of 88 columns: who, when, why, what prevents it, and how to see it again. */
export function formatCounterexample(found: CounterexampleText): string {
  const { schedule, violation, showsAll = 'replay', paint = PLAIN } = found;
  const telling = tellingOf(schedule, found.judgement);
  const head = [headLine(found, paint), truncate(`  ${configLine(schedule, found.lock)}`, WIDTH), ''];
  const foot = footLines(found, telling);
  const room = MOST_LINES - head.length - 1 - foot.length;
  const focus = focusOf(violation, telling);
  const rows = mostRelevant(telling.rows, focus, room);
  const mark = markOf(violation, rows, telling.claims);
  const columns = columnsOf(violation, telling.claims);
  const lines = [...head, ...tableLines(rows, telling.claims, { mark, columns, width: WIDTH, paint })];
  const left = telling.rows.length - rows.length;
  if (left > 0) lines.push(paint.dim(`  … ${plural(left, 'more line')} (${showsAll} shows all)`));
  return `${[...lines, ...foot].join('\n')}\n`;
}

function headLine(found: CounterexampleText, paint: Painter): string {
  const { violation, run, runs, foundEvents, events, seed } = found;
  const size =
    foundEvents <= events ? plural(events, 'event') : `shrunk ${formatCount(foundEvents)} → ${plural(events, 'event')}`;
  const title = paint.bad(`✗ ${propertyLabel(violation.property)}`);
  if (seed === null) return `${title}   ${size}`;
  return `${title}   run ${formatCount(run + 1)}${runs === null ? '' : `/${formatCount(runs)}`}   ${size}   seed ${truncate(seed, 24)}`;
}

const LABEL_WIDTH = 14;
const MOST_SENTENCE_LINES = 3;

function footLines(
  {
    violation,
    preventions,
    explained = [],
    replay,
    report = null,
    decidedBy = null,
    culprit = 'the lock',
  }: CounterexampleText,
  telling: TimelineModel,
): string[] {
  const sentence = shortened(wrap(violationSentence(violation, telling), WIDTH - 2), MOST_SENTENCE_LINES);
  const prevented =
    preventions === null || preventions.length === 0
      ? 'none of the known mitigations on this schedule'
      : preventions.map(({ mitigation, verdict }) => (verdict === 'safe' ? mitigation : `${mitigation} (${verdict})`));
  const assumptions = assumptionLines(telling.judgement);
  const needed = neededWords(explained);
  return [
    '',
    ...sentence.map((line) => `  ${line}`),
    ...(assumptions.length === 0
      ? [labelled('assumptions', `all kept, so this is a bug of ${culprit}`)]
      : assumptions.slice(0, 2).map((line, i) => labelled(i === 0 ? 'assumptions' : '', `broken: ${line}`))),
    ...(needed === null ? [] : neededLines(needed)),
    ...(decidedBy === null ? [] : [labelled('decided by', decidedBy)]),
    ...(preventions === null
      ? []
      : [labelled('prevented by', typeof prevented === 'string' ? prevented : prevented.join(' · '))]),
    `  ${'replay'.padEnd(LABEL_WIDTH)}${replay ?? 'none: its file could not be written'}`,
    ...(report === null ? [] : [`  ${'report'.padEnd(LABEL_WIDTH)}${report}`]),
  ];
}

/** As many lines as there is room for; it is seen that there were more. */
function shortened(lines: readonly string[], most: number): readonly string[] {
  if (lines.length <= most) return lines;
  return [...lines.slice(0, most - 1), truncate(`${lines[most - 1]} …`, WIDTH - 2)];
}

function neededLines(words: string): string[] {
  return wrap(words, WIDTH - 2 - LABEL_WIDTH).map((line, i) => labelled(i === 0 ? 'needed' : '', line));
}

function labelled(label: string, text: string): string {
  return truncate(`  ${label.padEnd(LABEL_WIDTH)}${text}`, WIDTH);
}

/** More than these leave no room for words. */
const MOST_COLUMNS = 2;

/** The clients concerned, and as many others that ever held a lock as there is room for. */
function columnsOf(violation: Violation, claims: readonly Hold[]): string[] {
  const names = new Set([...violation.clients, ...claims.map((claim) => claim.client)]);
  return [...names].slice(0, Math.max(MOST_COLUMNS, new Set(violation.clients).size)).sort();
}

/** What a violation is about: whose claims, from which tokens, on which nodes, and when. */
interface Focus {
  readonly claims: readonly Hold[];
  readonly clients: readonly string[];
  readonly tokens: readonly number[];
  /** Nodes that voted for all of the claims. */
  readonly nodes: readonly string[];
  readonly fromUs: number;
  readonly atUs: number;
  readonly untilUs: number;
}

function focusOf(violation: Violation, { claims, rows }: TimelineModel): Focus {
  const concerned = claimsIn(violation, claims);
  const [first, ...others] = concerned;
  const tokens = concerned.map((claim) => claim.token);
  const sendings = rows.filter((row) => row.kind === 'send' && row.tokens.some((token) => tokens.includes(token)));
  return {
    claims: concerned,
    clients: violation.clients,
    tokens,
    nodes: (first?.voters ?? []).filter((node) => others.every((claim) => claim.voters.includes(node))),
    fromUs: Math.min(violation.atUs, ...sendings.map((row) => row.atUs)),
    atUs: violation.atUs,
    untilUs: violation.untilUs ?? violation.atUs,
  };
}

/** Keeps as many rows as there is room for, the most relevant ones, in their order. One line is for saying so. */
function mostRelevant(rows: readonly Row[], focus: Focus, room: number): Row[] {
  if (rows.length <= room) return [...rows];
  const ranked = rows.map((row, index) => ({ row, index, rank: rankOf(row, focus) }));
  const kept = ranked
    .filter(({ rank }) => rank < BESIDE)
    .sort((a, b) => a.rank - b.rank || a.index - b.index)
    .slice(0, room - 1);
  return kept.sort((a, b) => a.index - b.index).map(({ row }) => row);
}

/** What is left out where not everything fits. */
const BESIDE = 5;

/** 0 is what the violation cannot be told without. */
function rankOf(row: Row, focus: Focus): number {
  if (row.atUs > focus.untilUs) return BESIDE;
  const isBefore = row.atUs <= focus.atUs;
  const isTheirs = row.tokens.some((token) => focus.tokens.includes(token));
  switch (row.kind) {
    case 'outcome':
      if (focus.claims.some((claim) => claim.seq === row.seq)) return 0;
      return isBefore && (isTheirs || row.what.includes('granted')) ? 1 : BESIDE;
    case 'write':
      return row.atUs === focus.atUs ? 0 : isBefore ? 1 : BESIDE;
    case 'fault':
      return faultRank(row, focus, isBefore);
    case 'send':
      if (isTheirs) return row.what.startsWith('SET') ? 1 : isBefore ? 3 : 4;
      return !isBefore ? BESIDE : row.what.includes('deletes') || row.what.includes('replaces') ? 1 : 4;
    case 'end':
      return isTheirs && row.what.startsWith('validity') ? 2 : 4;
    case 'check':
      return isTheirs && isBefore ? 3 : 4;
    case 'key':
    case 'late':
      return isTheirs && isBefore ? 2 : 4;
  }
}

function faultRank(row: Row, focus: Focus, isBefore: boolean): number {
  const isNear = row.processes.some((it) => focus.nodes.includes(it) || focus.clients.includes(it));
  if (row.atUs < focus.fromUs) return isNear ? 3 : 4;
  if (!isBefore) return BESIDE;
  return isNear ? 0 : 3;
}
