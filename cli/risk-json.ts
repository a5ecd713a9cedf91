import type { RiskEstimate } from '../advise/risk/summary.js';
import { TYPICAL } from '../advise/risk/typical.js';
import type { RiskAnswer } from './risk-answer.js';
import { assumptionsOf } from './risk-assumptions.js';

/** What `--json` prints of an estimate, without its schema. */
export function riskJson(answers: readonly RiskAnswer[], interrupted: boolean): object {
  return {
    estimates: answers.map((answer) => ({
      system: answer.system.name,
      rates: answer.end ?? 'as described',
      assumptions: assumptionsOf(answer),
      seed: answer.seed,
      ...figures(answer.estimate),
      causes: answer.examples.map(({ cause, path, replay }) => {
        return { causes: cause.causes, perYear: cause.perYear, schedule: path, replay };
      }),
      method: answer.estimate.method,
      changes: answer.changes.map(({ mitigation: { id, title, lines }, estimate }) => {
        return { id, title, lines, ...figures(estimate) };
      }),
    })),
    interrupted,
  };
}

function figures({ perYear, overlap, late, disordered }: RiskEstimate): object {
  return { perYear, overlap, late, disordered };
}

/** What `--json` prints of published rates, without its schema. */
export function typicalJson(): object {
  return { rates: TYPICAL };
}
