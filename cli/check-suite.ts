import { propertyLabel } from '../report/index.js';
import type { CheckResult } from '../search/index.js';
import { plural } from '../text/format.js';
import type { CounterexampleJson } from './check-json.js';
import type { Plan } from './check-plan.js';
import { unjudgedWords, untriedWords } from './check-text.js';
import { type Regressions, standsCommitted } from './regressions.js';
import type { Case, Suite } from './reporters/outcome.js';

/** What a search tried: each known schedule that did not reproduce, and each property. `text` tells of the failure. */
export function checkSuite(
  plan: Plan,
  result: CheckResult,
  known: Regressions,
  failure: { readonly text: string; readonly counterexample: CounterexampleJson } | null,
): Suite {
  const { properties, insideOnly } = plan;
  const searched = [...properties, ...insideOnly].map((property): Case => {
    const name = `${propertyLabel(property)}${insideOnly.includes(property) ? ' within the assumptions' : ''}`;
    if (failure?.counterexample.property === property) return { name, result: 'failed', ...told(failure) };
    if (result.verdict === 'passed') return { name, result: 'passed' };
    if (failure !== null) return { name, result: 'skipped', message: 'the search ended at another violation' };
    return { name, result: 'undecided', message: result.reason ?? 'too little happened' };
  });
  const left =
    result.verdict === 'passed'
      ? `; not tried: ${untriedWords(plan.faultModel)}; not judged: ${unjudgedWords(plan)}`
      : '';
  return {
    name: 'lockstep check',
    cases: [...knownCases(known), ...searched],
    seconds: result.elapsedMs / 1000,
    summary: `${result.verdict}: ${plural(result.runs, 'schedule')}, ${plural(result.events, 'event')}, seed ${result.seed}${left}`,
  };
}

function told({ text, counterexample }: { readonly text: string; readonly counterexample: CounterexampleJson }) {
  const { detail, schedule, replay } = counterexample;
  return {
    message: detail,
    text,
    ...(schedule === null ? {} : { file: schedule }),
    ...(replay === null ? {} : { replay }),
  };
}

function knownCases(known: Regressions): Case[] {
  const { total, unreproduced, settings, failures } = known;
  if (total === 0) return [];
  if (unreproduced.length === 0) {
    const standing = failures.filter((it) => standsCommitted({ ...known, failures: [it] }));
    return [
      { name: plural(total, 'known schedule'), result: 'passed' },
      ...standing.map(({ path }): Case => {
        const message = `it still fails with your settings: ${settings.join(', ')}`;
        return { name: `known failure ${path}`, result: 'failed', message, file: path };
      }),
    ];
  }
  return unreproduced.map(({ path, difference }) => ({
    name: `known schedule ${path}`,
    result: 'failed',
    message: difference,
    file: path,
  }));
}
