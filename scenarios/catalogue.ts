import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { InputError, show } from './input-error.js';
import { meant } from './nearest.js';
import { parseScenarioText } from './parse.js';
import type { Scenario } from './scenario.js';

/*
 * The only file of this room that reads files, and therefore not part of its index: a browser can import the rest.
 */

/** Where the catalogue is, seen from the source or from the build in `dist/scenarios`. */
function catalogueFolder(): URL {
  const places = ['./catalogue/', '../../scenarios/catalogue/'].map((place) => new URL(place, import.meta.url));
  const found = places.find((place) => existsSync(place));
  if (found === undefined)
    throw new InputError('the catalogue is missing; it must be in scenarios/catalogue of the package');
  return found;
}

/** Tests look at every field of the package's own files; to do so again would take `list` as long as all the rest of it. */
function trusted(text: string): Scenario {
  return JSON.parse(text) as Scenario;
}

/**
 * All scenarios of the catalogue, by id (`S3` before `S12`).
 *
 * @param other - Another folder of scenario files, ending in `/`.
 * @throws {@link InputError} if a file of that is wrong.
 */
export function loadCatalogue(other?: URL): Scenario[] {
  const folder = other ?? catalogueFolder();
  const read = other === undefined ? trusted : parseScenarioText;
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  const owners = new Map<string, string>();
  const scenarios = files.sort().map((name) => {
    const scenario = read(readFileSync(new URL(encodeURIComponent(name), folder), 'utf8'), name);
    const owner = owners.get(scenario.id);
    if (owner !== undefined)
      throw new InputError(`${name}: /id: ${show(scenario.id)} is the id of ${owner}; use another`);
    owners.set(scenario.id, name);
    return scenario;
  });
  const order = new Intl.Collator('en', { numeric: true });
  return scenarios.sort((a, b) => order.compare(a.id, b.id));
}

/** The scenario in the file of its name, without reading all the others: a person waits. */
function ownOf(id: string): [Scenario] | undefined {
  if (!/^\w+$/.test(id)) return undefined;
  const file = new URL(`${id}.json`, catalogueFolder());
  if (!existsSync(file)) return undefined;
  const scenario = trusted(readFileSync(file, 'utf8'));
  return scenario.id === id ? [scenario] : undefined;
}

/**
 * The scenario with this id or slug.
 *
 * @throws {@link InputError} with the nearest of both if there is none.
 */
export function findScenario(name: string, catalogue: readonly Scenario[] = ownOf(name) ?? loadCatalogue()): Scenario {
  const found = catalogue.find(({ id, slug }) => id === name || slug === name);
  if (found !== undefined) return found;
  const names = [...catalogue.map(({ id }) => id), ...catalogue.flatMap(({ slug }) => slug ?? [])];
  throw new InputError(`${show(name)} is not a scenario; ${meant(name, names, 'the scenarios are')}`);
}
