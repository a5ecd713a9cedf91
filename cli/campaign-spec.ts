import { type CampaignSearch, type CampaignSpec, engineHash } from '../campaign/index.js';
import { InputError } from '../scenarios/input-error.js';
import type { CampaignFlags, Weighted } from './campaign-flags.js';
import { planOf } from './check-plan.js';
import { loadScenario } from './scenario-file.js';
import { faultAmounts, flag } from './values.js';

/** A thousand ranges for most; one is some seconds of work. */
const RANGE_RUNS = 20_000;
/** Where only the time is limited. */
const ENDLESS = 1_000_000_000;
const SEED = '1';
const AS_GIVEN: readonly Weighted[] = [{ text: '', weight: 1 }];

/** What a campaign is to do, resolved from flags and defaults. */
export function specOf(flags: CampaignFlags, cwd: string): CampaignSpec {
  if (flags.policies !== undefined && flags.policy !== undefined) {
    throw new InputError('--policies: it says which policies there are; leave out --policy');
  }
  if (flags.classes !== undefined && flags.faults !== undefined) {
    throw new InputError('--classes: it says which faults there are; leave out --faults');
  }
  const around = flags.around === undefined ? null : loadScenario(flags.around, cwd).schedule;
  const { policies = AS_GIVEN, classes = AS_GIVEN, seed = SEED } = flags;
  const [first, ...rest] = policies.flatMap((policy) =>
    classes.map((faults): CampaignSearch & { readonly runs: number } => {
      const name = [policy.text, faults.text].filter((part) => part !== '').join(' with ');
      const plan = planOf(
        {
          ...flags,
          shrink: true,
          // Searches of one campaign draw apart from each other; one alone draws as `check` does.
          seed: policies.length * classes.length === 1 ? seed : `${seed} ${name}`,
          ...(policy.text === '' ? {} : { policy: policy.text }),
          ...(faults.text === '' ? {} : { faults: flag('--classes', faultAmounts)(faults.text) }),
        },
        around,
      );
      const { weather, strategy, properties } = plan;
      return {
        name: name === '' ? 'all' : name,
        weight: policy.weight * faults.weight,
        plan: { weather, seed: plan.seed, strategy, properties },
        runs: plan.runs ?? ENDLESS,
      };
    }),
  );
  if (first === undefined) throw new InputError('--policies: there is none');
  const { runs } = first;
  return {
    schema: 'lockstep.campaign/1',
    searches: [withoutRuns(first), ...rest.map(withoutRuns)],
    runs,
    rangeRuns: Math.min(runs, flags.rangeRuns ?? RANGE_RUNS),
    budgetMs: flags.budget === undefined ? null : flags.budget / 1000,
    stopAfter: flags.untilFound ?? null,
    engine: engineHash(),
  };
}

function withoutRuns({ name, weight, plan }: CampaignSearch): CampaignSearch {
  return { name, weight, plan };
}
