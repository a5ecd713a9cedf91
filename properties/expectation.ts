import type { Expectation, ExpectedViolation, PropertyId, Schedule } from '../scenarios/index.js';
import { type Judgement, judge } from './judge.js';
import { SAFETY } from './property-lists.js';
import type { Violation } from './violation.js';

/** The properties that an expectation is about: those of every fixed schedule, and those that it names. */
export function judgedProperties(expectation: Expectation): PropertyId[] {
  const named = (expectation.violations ?? []).map((violation) => violation.property);
  return [...new Set([...SAFETY, ...named])];
}

/** Runs a schedule with its trace, and judges it by what an expectation is about. */
export function judgeAsExpected(schedule: Schedule, expectation: Expectation): Judgement {
  return judge(schedule, judgedProperties(expectation), true);
}

/**
 * Compares what came of a schedule with what was expected of it. The judgement must have its trace if claims are
 * expected; {@link judgeAsExpected} makes it so.
 *
 * @returns `null` if all that is expected is there, or one sentence on the first difference.
 */
export function reproduces(expectation: Expectation, judgement: Judgement): string | null {
  return (
    wrongVerdict(expectation, judgement) ??
    wrongViolations(expectation, judgement) ??
    wrongOutages(expectation, judgement) ??
    wrongClaims(expectation, judgement) ??
    wrongWrites(expectation, judgement) ??
    wrongHash(expectation, judgement)
  );
}

function wrongVerdict({ verdict }: Expectation, judgement: Judgement): string | null {
  if (judgement.verdict === verdict) return null;
  return `expected ${verdict}, but it is ${judgement.verdict}`;
}

function wrongViolations(expectation: Expectation, judgement: Judgement): string | null {
  const expected = expectation.violations;
  if (expected === undefined) return null;
  const asked = judgedProperties(expectation);
  const left = judgement.violations.filter((it) => asked.includes(it.property));
  const all = left.map(violationWords).join(', ') || 'none';
  for (const violation of expected) {
    const at = left.findIndex((it) => agrees(violation, it));
    if (at < 0) return `expected the violation ${violationWords(violation)}, but there is ${all}`;
    left.splice(at, 1);
  }
  const [more] = left;
  return more === undefined ? null : `there is a violation that was not expected: ${violationWords(more)}`;
}

function agrees(expected: ExpectedViolation, violation: Violation): boolean {
  return (
    expected.property === violation.property &&
    (expected.atUs ?? violation.atUs) === violation.atUs &&
    (expected.untilUs ?? violation.untilUs) === violation.untilUs &&
    (expected.resource ?? violation.resource) === violation.resource
  );
}

function violationWords({ property, atUs, untilUs }: ExpectedViolation | Violation): string {
  const from = atUs === undefined ? '' : ` from ${atUs} us`;
  const until = untilUs === undefined || untilUs === null ? '' : ` to ${untilUs} us`;
  return `${property}${from}${until}`;
}

function wrongOutages({ unavailable }: Expectation, { outages }: Judgement): string | null {
  if (unavailable === undefined) return null;
  const wanted = unavailable.map(intervalWords).join(', ') || 'none';
  const found = outages.map(intervalWords).join(', ') || 'none';
  return wanted === found ? null : `expected to be unavailable ${wanted}, but it is ${found}`;
}

function intervalWords({ fromUs, toUs }: { readonly fromUs: number; readonly toUs: number }): string {
  return `from ${fromUs} to ${toUs} us`;
}

function wrongClaims({ claims }: Expectation, { run }: Judgement): string | null {
  if (claims === undefined) return null;
  const found = run.trace.filter((event) => event.kind === 'claim').map((event) => `${event.process}@${event.atUs}`);
  const [wanted, made] = [claims.join(' '), found.join(' ')];
  return wanted === made ? null : `expected the claims ${wanted || 'none'}, but they are ${made || 'none'}`;
}

function wrongWrites({ writes }: Expectation, { run }: Judgement): string | null {
  if (writes === undefined) return null;
  const found = run.trace
    .filter(({ kind }) => kind === 'write-arrived' || kind === 'write-refused')
    .map(({ process, atUs, kind, detail }) => {
      return `${process}@${atUs} ${kind === 'write-refused' ? 'refused' : detail.stale === 1 ? 'stale' : 'accepted'}`;
    });
  const [wanted, made] = [writes.join(', '), found.join(', ')];
  return wanted === made ? null : `expected the writes ${wanted || 'none'}, but they are ${made || 'none'}`;
}

function wrongHash({ hash }: Expectation, { run }: Judgement): string | null {
  return hash === undefined || hash === run.hash ? null : `expected the trace hash ${hash}, but it is ${run.hash}`;
}
