import { acquiredSaid, promiseSaid } from '../audit/index.js';
import type { PassReport } from '../report/pass/index.js';
import { formatCount, plural } from '../text/format.js';
import type { Audited } from './audit-text.js';
import type { AuditFlags } from './flags.js';
import type { Io } from './io.js';
import { emptyPass, writePass } from './pass-page.js';

/** Writes the page for a file in which nothing was found. @returns Its path; `null` where none was asked for, or something was found. */
export function writeAuditPass({ file, result, findings }: Audited, { report }: AuditFlags, io: Io): string | null {
  if (report === undefined || findings.length > 0 || result.verdict === 'violated') return null;
  return writePass(report, auditPass(file, result, io), io);
}

function auditPass(file: string, result: Audited['result'], io: Io): PassReport {
  const { verdict, runs, left, understood, notes, classes } = result;
  const passed = verdict === 'passed';
  return {
    ...emptyPass(io),
    subject: file,
    verdict: passed ? 'passed' : verdict,
    tone: passed ? 'good' : 'open',
    sentence: passed
      ? `No schedule was found that breaks the lock in ${file}, in ${plural(runs, 'run')} with ${acquiredSaid(result)}.`
      : `Nothing can be said of the lock in ${file}: ${notes.join(' ')}`,
    tried: Object.entries(classes).map(([name, count]) => ({ name, text: plural(count, 'run') })),
    notTried: [
      ...(left === 0
        ? []
        : [{ name: 'runs', text: `${formatCount(left)} were asked for, and there was no time for them` }]),
      { name: 'not promised', text: promiseSaid(result).notMade },
    ],
    nearMisses: notes.map((text) => ({ name: 'note', text })),
    configuration: [
      ...understood.map((text) => ({ name: 'understood', text })),
      { name: 'promise', text: promiseSaid(result).judged },
    ],
    meaning: [
      'The lock ran unmodified in a simulated world. That no schedule was found is no proof that there is none.',
    ],
  };
}
