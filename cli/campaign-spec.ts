import { type CampaignSearch, type CampaignSpec, engineHash, librariesOf } from '../campaign/index.js';
import { LIBRARIES } from '../libraries/adapters/index.js';
import { FAULT_CLASSES, type FaultClass, LIBRARY_POLICY } from '../libraries/search/fault-classes.js';
import type { LibraryRef } from '../libraries/test-library.js';
import { InputError } from '../scenarios/input-error.js';
import { faultChoice } from '../search/fault-choice.js';
import type { CampaignFlags, Weighted } from './campaign-flags.js';
import { planOf } from './check-plan.js';
import { known, ownLibrary } from './library-names.js';
import { loadScenario } from './scenario-file.js';
import { flag } from './values.js';

/** A thousand ranges for most; one is some seconds of work. */
const RANGE_RUNS = 20_000;
const LIBRARY_RANGE_RUNS = 500;
/** Where only the time is limited. */
const ENDLESS = 1_000_000_000;
const SEED = '1';
const AS_GIVEN: readonly Weighted[] = [{ text: '', weight: 1 }];
const ALL_CLASSES: readonly Weighted[] = FAULT_CLASSES.map(({ id }) => ({ text: id, weight: 1 }));

/** What a campaign is to do, resolved from flags and defaults. */
export function specOf(flags: CampaignFlags, cwd: string): CampaignSpec {
  if (flags.profiles !== undefined && flags.profile !== undefined) {
    throw new InputError('--profiles: it says which profiles there are; leave out --profile');
  }
  if (flags.faultClasses !== undefined && flags.faults !== undefined) {
    throw new InputError('--fault-classes: it says which faults there are; leave out --faults');
  }
  const searches = [...lockSearches(flags, cwd), ...librarySearches(flags, cwd)];
  const [first, ...rest] = searches;
  if (first === undefined) throw new InputError('--fault-classes: there is none for these');
  const libraries = librariesOf({ searches: [first, ...rest] });
  // Limits are the same for all, and known to those that draw for the lock.
  const runs = planOf({ ...flags, shrink: true }, null).runs ?? ENDLESS;
  return {
    schema: 'lockstep.campaign/1',
    searches: [first, ...rest],
    runs,
    rangeRuns: Math.min(runs, flags.rangeRuns ?? (libraries.length > 0 ? LIBRARY_RANGE_RUNS : RANGE_RUNS)),
    budgetMs: flags.budget === undefined ? null : flags.budget / 1000,
    stopAfter: flags.untilFound ?? null,
    engine: engineHash(libraries),
  };
}

/** Profiles by classes of faults; as the other flags say, where neither is named. */
function lockSearches(flags: CampaignFlags, cwd: string): CampaignSearch[] {
  const { profiles = AS_GIVEN, faultClasses: classes = AS_GIVEN, libraries, seed = SEED } = flags;
  if (libraries !== undefined && flags.profiles === undefined && flags.profile === undefined) return [];
  const around = flags.around === undefined ? null : loadScenario(flags.around, cwd).schedule;
  const own = libraries === undefined ? classes : classes.filter(({ text }) => !isOfLibraries(text));
  return profiles.flatMap((profile) =>
    own.map((faults): CampaignSearch => {
      const name = [profile.text, faults.text].filter((part) => part !== '').join(' with ');
      const { faultModel, strategy, properties, insideOnly, ...plan } = planOf(
        {
          ...flags,
          shrink: true,
          // Searches of one campaign draw apart from each other; one alone draws as `check` does.
          seed: profiles.length * classes.length === 1 && libraries === undefined ? seed : `${seed} ${name}`,
          ...(profile.text === '' ? {} : { profile: profile.text }),
          ...(faults.text === '' ? {} : { faults: flag('--fault-classes', faultChoice)(faults.text) }),
        },
        around,
      );
      return {
        name: name === '' ? 'all' : name,
        weight: profile.weight * faults.weight,
        plan: { faultModel, seed: plan.seed, strategy, properties, insideOnly },
      };
    }),
  );
}

/** Libraries by classes of faults: those of `lockstep libraries`, or amounts; all of the former, where none is named. */
function librarySearches(flags: CampaignFlags, cwd: string): CampaignSearch[] {
  const { libraries = [], faultClasses: classes = ALL_CLASSES, seed = SEED } = flags;
  const isAlone = flags.profiles === undefined && flags.profile === undefined;
  const odd = (['strategy', 'properties', 'around', 'exceed'] as const).find((name) => flags[name] !== undefined);
  if (libraries.length > 0 && isAlone && odd !== undefined) {
    throw new InputError(`--libraries: libraries are drawn for and judged in one way; leave out --${odd}`);
  }
  return libraries.flatMap((named) => {
    const library = libraryNamed(named.text, cwd);
    return classes.map((faults): CampaignSearch => {
      const name = `${library.id} with ${faults.text}`;
      const plan = { library, faults: classOf(faults.text, flags), seed: `${seed} ${name}` };
      return { name, weight: named.weight * faults.weight, plan };
    });
  });
}

function libraryNamed(text: string, cwd: string): LibraryRef {
  if (/[\\/]|\.[cm]?[jt]s$/.test(text)) return ownLibrary(text, cwd, '--libraries');
  const ids = LIBRARIES.map(({ id }) => id);
  known([text], ids, '--libraries');
  return { id: text };
}

function isOfLibraries(text: string): boolean {
  return FAULT_CLASSES.some(({ id }) => id === text);
}

/** A class of the matrix by its name, or one of these amounts. */
function classOf(text: string, flags: CampaignFlags): FaultClass {
  const named = FAULT_CLASSES.find(({ id }) => id === text);
  if (named !== undefined) return named;
  const faults = flag('--fault-classes', faultChoice)(text);
  const { faultModel } = planOf({ ...flags, shrink: true, faults }, null);
  return { id: text, title: text, story: text, faultModel: { ...faultModel, policy: LIBRARY_POLICY } };
}
