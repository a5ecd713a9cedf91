import { type AuditResult, acquiredSaid, FINDING_TITLES, type Finding, promiseSaid } from '../audit/index.js';
import { formatList, plural, wrap } from '../text/format.js';
import type { Accepted } from './audit-baseline.js';
import type { Case } from './reporters/outcome.js';

/** A finding, and where its files are. */
export interface WrittenFinding extends Finding {
  readonly schedule: string | null;
  readonly page: string | null;
  /** The command that shows it again. */
  readonly replay: string;
  /** It is in the baseline; left out where there is none. */
  readonly accepted?: boolean;
}

/** What came of a file, as it was named. */
export type FileOutcome =
  | {
      readonly kind: 'audited';
      readonly file: string;
      readonly result: AuditResult;
      readonly findings: readonly WrittenFinding[];
    }
  | { readonly kind: 'skipped' | 'refused'; readonly file: string; readonly why: string };

/** One that was audited. */
export type Audited = Extract<FileOutcome, { readonly kind: 'audited' }>;

const LABEL = 12;

/** How an audit is told to a person. */
export function auditText({ result, findings }: Audited, width: number): string {
  const { judged, notMade } = promiseSaid(result);
  const { verdict, name } = result;
  const runs = runsOf(result);
  const said = {
    passed: `${name}: no schedule was found that breaks it, in ${runs} with ${acquiredSaid(result)}; that is no proof`,
    violated: `${name} is not safe: ${plural(findings.length, 'finding')} in ${runs}${acceptedOf(findings)}`,
    inconclusive: `${name}: nothing can be said of it`,
  }[verdict];
  const lines = [
    `${{ passed: '✓', violated: '✗', inconclusive: '?' }[verdict]} ${said}`,
    '',
    ...result.understood.flatMap((it, i) => labelled(i === 0 ? 'understood' : '', it, width)),
    ...labelled('promise', judged, width),
    ...labelled('not promised', notMade, width),
    ...result.notes.flatMap((it) => labelled('note', it, width)),
    ...findings.flatMap((it, i) => ['', ...findingLines(it, i, width)]),
  ];
  return `${lines.join('\n')}\n`;
}

/** How much was searched, and what was not. */
function runsOf({ runs, left }: AuditResult): string {
  return left === 0 ? plural(runs, 'run') : `${runs} of ${runs + left} runs (its time for the search ended there)`;
}

function acceptedOf(findings: readonly WrittenFinding[]): string {
  const accepted = findings.filter((it) => it.accepted).length;
  return accepted === 0 ? '' : `, ${accepted === findings.length ? 'all' : accepted} accepted in the baseline`;
}

function findingLines(finding: WrittenFinding, i: number, width: number): string[] {
  const { id, property, sentence, fix, decidedBy, schedule, page, text, accepted } = finding;
  return [
    ...labelled(`${i + 1}`, `${id}: ${sentence}`, width),
    ...labelled('property', property, width),
    ...(fix === null ? [] : labelled('fix', fix, width)),
    ...(decidedBy === null ? [] : labelled('decided by', decidedBy, width)),
    ...(schedule === null ? [] : labelled('schedule', schedule, width)),
    ...(page === null ? [] : labelled('report', page, width)),
    ...(accepted ? labelled('accepted', 'it is in the baseline', width) : []),
    ...(text === '' || i > 0 ? [] : ['', ...text.trimEnd().split('\n')]),
  ];
}

function labelled(label: string, text: string, width: number): string[] {
  return wrap(text, width - LABEL - 3).map((line, i) => `  ${(i === 0 ? label : '').padEnd(LABEL)} ${line}`);
}

/** One line on many files. */
export function auditSummary(outcomes: readonly FileOutcome[]): string {
  const audited = outcomes.flatMap((it) => (it.kind === 'audited' ? [it] : []));
  const of = (verdict: AuditResult['verdict']): number => audited.filter((it) => it.result.verdict === verdict).length;
  const counts = [
    [of('violated'), 'not safe'],
    [of('passed'), 'without a finding'],
    [of('inconclusive'), 'inconclusive'],
    [outcomes.filter(({ kind }) => kind === 'refused').length, 'not audited'],
    [outcomes.filter(({ kind }) => kind === 'skipped').length, 'skipped'],
  ] as const;
  const said = counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  const findings = audited.flatMap((it) => it.findings);
  return `${plural(outcomes.length, 'file')}: ${formatList(said)}; ${plural(findings.length, 'finding')}${acceptedOf(findings)}`;
}

/** What an audit comes to for programs, in few words: all of it is to be read by those who have little room. */
export function auditJson({ file, result, findings }: Audited): object {
  const { verdict, understood, promise, notes, runs, left, acquired } = result;
  return {
    file,
    verdict,
    understood,
    promise: { kind: promise, ...promiseSaid(result) },
    findings: findings.map(
      ({ id, property, sentence, fix, decidedBy, assumptionsBroken, schedule, page, replay, accepted }) => ({
        id,
        property,
        sentence,
        fix,
        decidedBy,
        assumptionsBroken,
        schedule,
        report: page,
        replay,
        ...(accepted === undefined ? {} : { accepted }),
      }),
    ),
    notes,
    runs,
    ...(left === 0 ? {} : { left }),
    acquired,
  };
}

/** The same for many files. */
export function auditsJson(outcomes: readonly FileOutcome[], noLongerFound: readonly Accepted[] | undefined): object {
  const unaudited = (kind: FileOutcome['kind']): object[] =>
    outcomes.flatMap((it) => (it.kind === kind && it.kind !== 'audited' ? [{ file: it.file, why: it.why }] : []));
  return {
    audits: outcomes.flatMap((it) => (it.kind === 'audited' ? [auditJson(it)] : [])),
    skipped: unaudited('skipped'),
    notAudited: unaudited('refused'),
    ...(noLongerFound === undefined ? {} : { noLongerFound }),
  };
}

/** What was tried of a file, for continuous integration. @param from - Makes a path one from the working directory. */
export function auditCases(outcome: FileOutcome, from: (path: string) => string): Case[] {
  const { file } = outcome;
  if (outcome.kind !== 'audited') {
    const result = outcome.kind === 'skipped' ? 'skipped' : 'undecided';
    return [{ name: file, result, message: outcome.why, file, rule: 'not-audited' }];
  }
  const { result, findings } = outcome;
  if (result.verdict === 'passed') return [{ name: file, result: 'passed', file }];
  if (findings.length === 0)
    return [{ name: file, result: 'undecided', message: result.notes.join('; '), file, rule: 'not-audited' }];
  return findings.map(({ id, property, sentence, fix, text, place, replay, accepted = false }): Case => {
    return {
      name: `${file}: ${property}: ${id}`,
      result: accepted ? 'skipped' : 'failed',
      message: `${sentence}${fix === null ? '' : `; to mend it: ${fix}`}`,
      text,
      file: place === null ? file : from(place.path),
      ...(place === null ? {} : { line: place.line, column: place.column }),
      rule: id,
      title: FINDING_TITLES[id] ?? id,
      property: property.replaceAll(' ', '-'),
      ...(fix === null ? {} : { help: fix }),
      replay,
      isAccepted: accepted,
    };
  });
}
