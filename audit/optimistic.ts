import { whereOf } from './plan.js';
import type { Program } from './program.js';
import type { OptimisticError } from './refusal.js';
import type { AuditPlan, AuditResult } from './result.js';
import { shownFinding } from './shown-finding.js';

/** The result for a file in which nobody holds a lock, and values are changed by WATCH and MULTI. */
export function updatesIn(
  program: Program,
  { plan, message, judged }: OptimisticError,
  { path }: Pick<AuditPlan, 'path'>,
): AuditResult {
  const { defect, runs, updates } = judged;
  return {
    name: program.name,
    verdict: defect !== null ? 'violated' : updates === 0 ? 'inconclusive' : 'passed',
    understood: [message],
    promise: 'update',
    admits: 1,
    findings: defect === null ? [] : [shownFinding(defect, whereOf(program, plan), path)],
    notes: updates === 0 && defect === null ? ['none of its updates was made, so nothing was tested'] : [],
    runs,
    left: 0,
    acquired: updates,
    classes: {},
    isInterrupted: false,
  };
}
