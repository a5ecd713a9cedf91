import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PROFILES } from '../deviations/index.js';
import { judgedProperties } from '../properties/expectation.js';
import { SAFETY } from '../properties/property-lists.js';
import { addressOf, fragmentAt, fragmentOf, packed, playgroundPage } from '../report/playground/index.js';
import { loadCatalogue } from '../scenarios/catalogue.js';
import { InputError } from '../scenarios/input-error.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { PlaygroundFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { openFile } from './report-file.js';
import { loadScenario } from './scenario-file.js';
import { writeNamed } from './write-file.js';

/** Writes the page, and says where it is. */
export async function playground(folder = 'playground', flags: PlaygroundFlags, io: Io): Promise<ExitCode> {
  const fragment = await fragmentFor(flags, io);
  const html = playgroundPage({ scenarios: loadCatalogue(), tour: tourText() });
  const path = writeNamed('[folder]', join(folder, 'index.html'), html, io.cwd);
  const address = `${pathToFileURL(resolve(io.cwd, path)).href}${fragment}`;
  if (flags.json) writeJson(io, 'lockstep.playground/1', { path, bytes: Buffer.byteLength(html), fragment, address });
  else io.stdout.write(`${path}\n${address}\n`);
  if (flags.open && io.env.LOCKSTEP_OPEN !== 'no') openFile(address, io.cwd);
  return Exit.ok;
}

/** A scenario of the catalogue or a client profile by its name; anything else as a whole. */
async function fragmentFor({ at: name, step = false }: PlaygroundFlags, io: Io): Promise<string> {
  if (name === undefined) {
    if (step) throw new InputError('--step: say what is stepped through, by --at');
    return '';
  }
  if (Object.hasOwn(PROFILES, name)) return fragmentAt({ profile: name });
  const { schedule, scenario } = loadScenario(name, io.cwd, io.command);
  const isKnown = scenario !== null && loadCatalogue().some(({ id }) => id === scenario.id) && !name.endsWith('.json');
  const place = { ...addressOf('#scenarios'), panel: step ? 'step' : 'events' } as const;
  if (isKnown) return fragmentOf({ ...place, scenario: scenario.id });
  const also = scenario === null ? [] : judgedProperties(scenario.expect).filter((it) => !SAFETY.includes(it));
  return fragmentOf({ ...place, run: await packed(schedule), also });
}

/** The text of the tour, seen from the source or from the build in `dist/cli`. */
function tourText(): string {
  const places = ['../docs/tour.md', '../../docs/tour.md'].map((place) => new URL(place, import.meta.url));
  const found = places.find((place) => existsSync(place));
  if (found === undefined) throw new Error('docs/tour.md of the package is missing');
  return readFileSync(found, 'utf8');
}
