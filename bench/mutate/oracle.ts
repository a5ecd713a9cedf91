import type { Scenario } from '../../scenarios/index.js';

/** What a process is asked: which mutants, in which build of the house. */
export interface Question {
  /** URL of the folder with the built house in which the errors are planted. */
  readonly house: string;
  readonly switch: string;
  readonly ids: readonly number[];
  readonly runs: number;
  /** Whether to look at the variants of the scenarios, which takes long, or at all else. */
  readonly variants: boolean;
}

/** Who killed a mutant, and how; `null` if it is alive. */
export interface Answer {
  readonly id: number;
  readonly killer: 'scenario' | 'search' | null;
  readonly how: string;
}

const { house, switch: name, ids, runs, variants } = JSON.parse(process.argv[2] ?? '') as Question;
const awake = globalThis as unknown as Record<string, number>;

const { loadCatalogue } = (await import(`${house}scenarios/catalogue.js`)) as {
  readonly loadCatalogue: () => Scenario[];
};
const { replayScenario } = (await import(`${house}cli/replay-all.js`)) as {
  readonly replayScenario: (scenario: Scenario) => { readonly reproduced: boolean };
};
const { SEARCHED } = (await import(`${house}properties/index.js`)) as typeof import('../../properties/index.js');
const { generateRun, WITHIN_ASSUMPTIONS } = (await import(
  `${house}search/index.js`
)) as typeof import('../../search/index.js');
const { RandomStreams } = (await import(`${house}sim/index.js`)) as typeof import('../../sim/index.js');

const catalogue = loadCatalogue().map((it) => (variants ? it : { ...it, flips: [], neighbours: [] }));
const streams = new RandomStreams('mutate');

// What the house keeps for all runs is made now: a mutant that made it would have those behind it killed as well.
awake[name] = 0;
answerOn(0);
for (const id of ids) {
  await tell({ id });
  awake[name] = id;
  await tell(answerOn(id));
}
// Else its channel keeps it alive.
process.disconnect();

/** Waits until it is on its way: what comes next may never end. */
function tell(message: { readonly id: number } | Answer): Promise<void> {
  return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()));
}

function answerOn(id: number): Answer {
  for (const [i, scenario] of catalogue.entries()) {
    if (!fails(() => !replayScenario(scenario).reproduced)) continue;
    // What killed this one may well kill the next.
    catalogue.splice(i, 1);
    catalogue.unshift(scenario);
    return { id, killer: 'scenario', how: scenario.id };
  }
  for (let run = 0; run < runs && !variants; run++) {
    let broken = 'an error';
    const found = fails(() => {
      const { monitors } = generateRun(WITHIN_ASSUMPTIONS, streams, run);
      const violation = monitors.violations.find(({ property }) => SEARCHED.includes(property));
      if (violation !== undefined) broken = violation.property;
      return violation !== undefined;
    });
    if (found) return { id, killer: 'search', how: broken };
  }
  return { id, killer: null, how: '' };
}

/** A crash is a difference as well. */
function fails(differs: () => boolean): boolean {
  try {
    return differs();
  } catch {
    return true;
  }
}
