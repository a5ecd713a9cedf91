import { judgedProperties } from '../../properties/expectation.js';
import { SAFETY } from '../../properties/property-lists.js';
import type { PropertyId, Scenario, Schedule } from '../../scenarios/index.js';
import { readSchedule } from '../../scenarios/read-schedule.js';
import { brief, expanded } from './pack.js';

/** What the playground knows of a scenario; sources are in docs/scenarios.md. */
export interface Stored {
  readonly id: string;
  readonly title: string;
  readonly story: string;
  readonly verdict: string;
  /** Mitigations that change its verdict. */
  readonly flips: readonly string[];
  /** Properties that its verdict is about, besides those of every schedule. */
  readonly also: readonly PropertyId[];
  readonly schedule: object;
}

/** A list of scenarios by their fields: alike stands by alike, which packs smaller. */
export type StoredCatalogue = { readonly [Field in keyof Stored]: readonly Stored[Field][] };

/** The catalogue as the page carries it. */
export function storedCatalogue(scenarios: readonly Scenario[]): StoredCatalogue {
  const of = <T>(field: (scenario: Scenario) => T): T[] => scenarios.map(field);
  return {
    id: of(({ id }) => id),
    verdict: of(({ expect }) => expect.verdict),
    also: of(({ expect }) => judgedProperties(expect).filter((it) => !SAFETY.includes(it))),
    flips: of(({ flips }) => flips.flatMap((flip) => (flip.with === undefined ? [] : [flip.with]))),
    schedule: of(({ schedule }) => brief(schedule)),
    title: of(({ title }) => title),
    story: of(({ story }) => shortened(story)),
  };
}

/** Longer stories are cut, characters: they are a tenth of the page, and the picture beside them shows the rest. */
const MOST_STORY = 340;

/** As many whole sentences as there is room for, with a mark where some are missing. */
function shortened(story: string): string {
  const end = story.length > MOST_STORY ? story.lastIndexOf('. ', MOST_STORY) : -1;
  return end < 0 ? story : `${story.slice(0, end + 1)} …`;
}

/** The scenarios of a page, one by one. */
export function scenariosOf(stored: StoredCatalogue): Stored[] {
  const fields = Object.keys(stored) as (keyof Stored)[];
  return stored.id.map(
    (_, i) => Object.fromEntries(fields.map((field) => [field, stored[field][i]])) as unknown as Stored,
  );
}

/** The whole schedule of a scenario. */
export function scheduleOf({ schedule }: Stored): Schedule {
  return readSchedule(expanded(schedule));
}
