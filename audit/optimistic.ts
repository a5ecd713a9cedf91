import { nameOfPlan, whereOf } from './plan.js';
import type { Program } from './program.js';
import type { OptimisticError } from './refusal.js';
import type { AuditPlan, AuditResult } from './result.js';
import { shownFinding } from './shown-finding.js';

/** The result for a file in which nobody holds a lock, and whose optimistic updates lose changes. */
export function optimisticResult(
  program: Program,
  { plan, key, defect }: OptimisticError,
  { path }: Pick<AuditPlan, 'path'>,
): AuditResult {
  const where = whereOf(program, plan);
  return {
    name: program.name,
    verdict: 'violated',
    understood: [
      `${nameOfPlan(plan)} (${where}) changes ${JSON.stringify(key)} by WATCH and MULTI: an optimistic update, in which nobody holds a lock`,
    ],
    promise: 'single',
    admits: 1,
    findings: defect === null ? [] : [shownFinding(defect, where, path)],
    notes: [],
    runs: 0,
    left: 0,
    acquired: 0,
    classes: {},
    isInterrupted: false,
  };
}
