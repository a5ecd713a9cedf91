import { parseArgs } from 'node:util';
import { estimateRisk } from '../advise/risk/estimate.js';
import { type Interval, wilson } from '../advise/risk/interval.js';
import type { RiskModel } from '../advise/risk/model.js';
import { bruteForce, bruteForceOfHolds } from './risk/brute-force.js';
import { closedForms, EMPTY, plainModel } from './risk/cases.js';
import { chanceOfAtMost, quantileOf, sidakShare } from './risk/joint.js';

/*
 * Whether `lockstep risk` can be trusted: beside figures computed by hand, beside brute force, where violations are very
 * rare, and how often its intervals contain the truth.
 */

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '20000' },
    repetitions: { type: 'string', default: '200' },
  },
});
const say = (text: string): void => void process.stdout.write(`${text}\n`);
const figure = (value: number): string => value.toExponential(3);
const shown = ({ value, low, high }: Interval): string => `${figure(value)} (${figure(low)} to ${figure(high)})`;
const contains = ({ low, high }: Interval, value: number): boolean => low <= value && value <= high;
let failed = false;
const verdict = (text: string, isTrue: boolean): void => {
  failed ||= !isTrue;
  say(`${isTrue ? 'yes' : 'NO '}  ${text}\n`);
};

const SECOND = 1_000_000;
const some = (count: number): (typeof EMPTY)[] => Array.from({ length: count }, () => EMPTY);

await byHand();
await besideBruteForce();
await veryRare();
await coverage();
process.exitCode = failed ? 1 : 0;

/** Cases that can be computed: violations a year. */
async function byHand(): Promise<void> {
  const cases = closedForms();
  const each = sidakShare(cases.length);
  say(
    'Cases computed by hand: violations a year, estimated with their 95 % interval, and whether that and the joint one,',
  );
  say(`of ${(100 * each).toFixed(2)} % (all ${cases.length} contain the truth in 95 of 100 tables), contain it\n`);
  let [inside, jointly] = [0, 0];
  for (const [i, { title, formula, model, perYear }] of cases.entries()) {
    // What is alike in two cases would draw alike, and their errors with it.
    const options = { seed: `${values.seed} case ${i}`, runs: Number(values.runs) };
    const estimate = await estimateRisk(model, options);
    // The same runs, since they are of the same seed.
    const wide = await estimateRisk(model, { ...options, quantile: quantileOf(each) });
    const isInside = contains(estimate.perYear, perYear);
    const isJointly = contains(wide.perYear, perYear);
    if (isInside) inside++;
    if (isJointly) jointly++;
    const place = isInside ? 'inside ' : isJointly ? 'jointly' : 'outside';
    say(`${place}  ${title}: ${formula} = ${figure(perYear)}; estimated ${shown(estimate.perYear)}`);
  }
  say('');
  verdict(`${jointly} of ${cases.length} inside the joint intervals`, jointly === cases.length);
  const chance = chanceOfAtMost(inside, cases.length);
  verdict(
    `${inside} of ${cases.length} inside the intervals of 95 %; so many or fewer are to be expected in ${(100 * chance).toFixed(0)} of 100 tables`,
    chance >= 0.01,
  );
}

/** A system of which brute force can be made: three empty nodes that crash, drift and step, beside pauses. */
function ordinary(locksPerYear: number, perYear: number): RiskModel {
  return plainModel(some(3), 2, {
    delayUs: [100, 1_000],
    driftPpm: 100,
    gapUs: 1_000,
    writeUs: [200, 2_000],
    writes: true,
    locksPerYear,
    rates: {
      crash: { perYear, bins: [{ from: 100_000, to: 2 * SECOND, share: 1 }] },
      dataLoss: { perYear: perYear / 4, bins: [{ from: 1, to: 1, share: 1 }] },
      nodeStep: { perYear, bins: [{ from: SECOND, to: 30 * SECOND, share: 1 }] },
      pause: { perYear: perYear / 4, bins: [{ from: SECOND, to: 60 * SECOND, share: 1 }] },
    },
  });
}

async function besideBruteForce(): Promise<void> {
  say('Beside brute force\n');
  const years = 1_000_000;
  const model = ordinary(1_000, 10);
  const estimate = await estimateRisk(model, { seed: values.seed });
  const seen = bruteForce(model, years, values.seed);
  const lived = wilson(seen.violated, years);
  say(
    `years lived through: ${years}; holds ${seen.holds}, run ${seen.run}, violated ${seen.violated}: ${shown(lived)} a year`,
  );
  say(`estimated: ${shown(estimate.perYear)} a year`);
  const ratio = estimate.perYear.value / lived.value;
  verdict(
    `at ${figure(lived.value)} a year, the estimate is ${ratio.toFixed(2)} times what brute force saw`,
    isNear(ratio),
  );
  const holds = 400_000;
  const rare = ordinary(1, 10_000);
  const each = bruteForceOfHolds(rare, holds, values.seed);
  const every = wilson(each.violated, holds);
  const both = await estimateRisk(rare, { seed: values.seed });
  say(`every hold run, one a year: ${holds} years, violated ${each.violated}: ${shown(every)} a year`);
  say(`estimated: ${shown(both.perYear)} a year`);
  const second = both.perYear.value / every.value;
  verdict(
    `at ${figure(every.value)} a year, the estimate is ${second.toFixed(2)} times what brute force saw`,
    isNear(second),
  );
}

function isNear(ratio: number): boolean {
  return ratio >= 0.5 && ratio <= 2;
}

async function veryRare(): Promise<void> {
  say('Violations of which no brute force sees one\n');
  const model = plainModel(some(5), 2, {
    delayUs: [100, 1_000],
    driftPpm: 100,
    contended: 0.1,
    locksPerYear: 365,
    rates: { crash: { perYear: 0.02, bins: [{ from: 100_000, to: 2 * SECOND, share: 1 }] } },
  });
  const began = performance.now();
  const { perYear, method } = await estimateRisk(model, { seed: values.seed });
  const seconds = (performance.now() - began) / 1000;
  const half = (perYear.high - perYear.low) / 2 / perYear.value;
  say(
    `estimated: ${shown(perYear)} a year, from ${method.runs + method.pilotRuns} runs in ${seconds.toFixed(1)} s, one worker`,
  );
  verdict(
    `at ${figure(perYear.value)} a year, half the interval is ${Math.round(100 * half)} % of the figure, within ${seconds.toFixed(1)} s`,
    half <= 0.5 && seconds <= 60,
  );
}

/** How often intervals contain the truth, over many seeds. */
async function coverage(): Promise<void> {
  const repetitions = Number(values.repetitions);
  say(`How many of ${repetitions} intervals, from as many seeds, contain what was computed by hand\n`);
  const chosen = [
    'holds of two lengths',
    'it is away for 0.1 to 60 s',
    'a loss while a pause',
    'with an fsync each second',
    'four others',
  ];
  const cases = chosen.flatMap((words) => closedForms().find(({ title }) => title.includes(words)) ?? []);
  let [all, within] = [0, 0];
  for (const { title, model, perYear } of cases) {
    let inside = 0;
    for (let i = 0; i < repetitions; i++) {
      const estimate = await estimateRisk(model, { seed: `${values.seed} ${i}`, runs: 500 });
      if (contains(estimate.perYear, perYear)) inside++;
    }
    all += repetitions;
    within += inside;
    const share = (100 * inside) / repetitions;
    verdict(`${title}: ${inside} of ${repetitions}, ${share.toFixed(1)} %`, share >= 90 && share <= 99);
  }
  say(`all together: ${within} of ${all}, ${((100 * within) / all).toFixed(1)} %`);
}
