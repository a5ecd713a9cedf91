import { whereOf } from './plan.js';
import type { Program } from './program.js';
import type { LostUpdateError } from './refusal.js';
import type { AuditPlan, AuditResult } from './result.js';
import { LOSES_UPDATES } from './shown-defects.js';
import { shownFinding } from './shown-finding.js';

/** The result for a file in which nobody holds a lock, and whose optimistic updates lose changes. */
export function lostUpdates(
  program: Program,
  { plan, message }: LostUpdateError,
  { path }: Pick<AuditPlan, 'path'>,
): AuditResult {
  return {
    name: program.name,
    verdict: 'violated',
    understood: [message],
    promise: 'update',
    admits: 1,
    findings: [shownFinding(LOSES_UPDATES, whereOf(program, plan), path)],
    notes: [],
    runs: 0,
    left: 0,
    acquired: 0,
    classes: {},
    isInterrupted: false,
  };
}
