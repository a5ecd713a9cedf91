import { type AuditResult, type Finding, PROMISES } from '../audit/index.js';
import { plural, wrap } from '../text/format.js';

/** A finding, and where its files are. */
export interface WrittenFinding extends Finding {
  readonly schedule: string | null;
  readonly page: string | null;
}

const LABEL = 12;

/** How an audit is told to a person. */
export function auditText(result: AuditResult, findings: readonly WrittenFinding[], width: number): string {
  const { judged, notMade } = PROMISES[result.promise];
  const { verdict, runs, acquired, name } = result;
  const said = {
    passed: `${name}: no schedule was found that breaks it, in ${plural(runs, 'run')} with ${plural(acquired, 'acquisition')}; that is no proof`,
    violated: `${name} is not safe: ${plural(findings.length, 'finding')} in ${plural(runs, 'run')}`,
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

function findingLines(finding: WrittenFinding, i: number, width: number): string[] {
  const { property, sentence, fix, decidedBy, schedule, page, text } = finding;
  return [
    ...labelled(`${i + 1}`, `${sentence}`, width),
    ...labelled('property', property, width),
    ...(fix === null ? [] : labelled('fix', fix, width)),
    ...(decidedBy === null ? [] : labelled('decided by', decidedBy, width)),
    ...(schedule === null ? [] : labelled('schedule', schedule, width)),
    ...(page === null ? [] : labelled('report', page, width)),
    ...(text === '' || i > 0 ? [] : ['', ...text.trimEnd().split('\n')]),
  ];
}

function labelled(label: string, text: string, width: number): string[] {
  return wrap(text, width - LABEL - 3).map((line, i) => `  ${(i === 0 ? label : '').padEnd(LABEL)} ${line}`);
}

/** What an audit comes to for programs, in few words: all of it is to be read by those who have little room. */
export function auditJson(result: AuditResult, findings: readonly WrittenFinding[]): object {
  const { name, verdict, understood, promise, notes, runs, acquired } = result;
  return {
    file: name,
    verdict,
    understood,
    promise: { kind: promise, ...PROMISES[promise] },
    findings: findings.map(({ id, property, sentence, fix, decidedBy, assumptionsBroken, schedule, page }) => ({
      id,
      property,
      sentence,
      fix,
      decidedBy,
      assumptionsBroken,
      schedule,
      report: page,
    })),
    notes,
    runs,
    acquired,
  };
}
