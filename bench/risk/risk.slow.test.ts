import { describe, expect, it } from 'vitest';
import { estimateRisk } from '../../advise/risk/estimate.js';
import { overPerYear, partsOf, strataFrom } from '../../advise/risk/strata.js';
import { runStratum, type StratumTask } from '../../advise/risk/stratum-runs.js';
import { bruteForce } from './brute-force.js';
import { closedForms, EMPTY, plainModel } from './cases.js';

const RUNS = 1_000;

describe('what lockstep risk estimates', () => {
  it.each(closedForms().map((it) => [it.title, it] as const))('is what is computed by hand: %s', async (_, it) => {
    const { value, low, high } = (await estimateRisk(it.model, { runs: RUNS })).perYear;
    // Twice as wide as the interval of 95 %: four standard deviations.
    expect(it.perYear).toBeGreaterThan(value - 2 * (value - low));
    expect(it.perYear).toBeLessThan(value + 2 * (high - value));
  });

  it('is what brute force sees', async () => {
    const model = plainModel([EMPTY, EMPTY], 2, {
      locksPerYear: 100_000,
      rates: { dataLoss: { perYear: 20, bins: [{ from: 1, to: 1, share: 1 }] } },
    });
    // With two of two nodes, both must lose the key.
    const one = { ...model, nodes: [EMPTY] };
    const years = 2_000;
    const { violated } = bruteForce(one, years, '1');
    const { perYear } = await estimateRisk(one, { runs: RUNS });
    expect(violated).toBeGreaterThan(150);
    expect(violated / years / perYear.value).toBeGreaterThan(0.75);
    expect(violated / years / perYear.value).toBeLessThan(1.33);
    expect((await estimateRisk(model, { runs: RUNS })).perYear.value).toBeLessThan(1e-6);
  });

  it('needs few runs where violations are very rare', async () => {
    const rare = closedForms().find(({ title }) => title.startsWith('three of five'));
    if (rare === undefined) throw new Error('a case was expected');
    const { perYear, method } = await estimateRisk(rare.model, { runs: RUNS });
    expect(perYear.value).toBeLessThan(1e-13);
    expect((perYear.value - perYear.low) / perYear.value).toBeLessThan(0.5);
    expect(method.runs + method.pilotRuns).toBeLessThan(4 * RUNS);
  });

  it('is the same for a seed, whatever makes the runs and in which order', async () => {
    const model = closedForms().find(({ title }) => title.startsWith('it is away'))?.model;
    if (model === undefined) throw new Error('a case was expected');
    const late = async (task: StratumTask) => {
      await new Promise((resolve) => setTimeout(resolve, task.from % 3));
      return runStratum(structuredClone(task));
    };
    const estimates = [await estimateRisk(model, { runs: RUNS }), await estimateRisk(model, { runs: RUNS, run: late })];
    expect(estimates[1]).toEqual(estimates[0]);
    expect(await estimateRisk(model, { runs: RUNS, seed: '2' })).not.toEqual(estimates[0]);
  });
});

describe('strata', () => {
  it('contain every hold of the year once', () => {
    for (const { model } of closedForms()) {
      const parts = partsOf(model);
      const looked = strataFrom(parts, 1e-12).reduce((sum, it) => sum + it.perYear, 0);
      expect((looked + overPerYear(parts)) / model.locksPerYear).toBeCloseTo(1, 9);
    }
  });
});
