import { judgeAsExpected } from '../../properties/expectation.js';
import { loadCatalogue } from '../../scenarios/catalogue.js';
import { mitigate, type Scenario, type Schedule } from '../../scenarios/index.js';
import { type Scene, sceneOf } from '../picture/scene.js';
import { snapshotOf } from '../run-snapshot.js';

export const CATALOGUE: readonly Scenario[] = loadCatalogue();

/** S47 splits the same vote two thousand times, in three quarters of all events of the catalogue; a picture has fifty. */
const FIFTY_ROUNDS_US = 10_300_000;

function shortened(id: string, schedule: Schedule): Schedule {
  return id === 'S47' ? { ...schedule, untilUs: FIFTY_ROUNDS_US } : schedule;
}

const known = new Map<string, Scene>();

/** The scene of a scenario, with a mitigation if one is named. Made once: nothing changes it. */
export function sceneNamed(id: string, mitigation?: string): Scene {
  const name = `${id} ${mitigation}`;
  const scene = known.get(name) ?? made(id, mitigation);
  known.set(name, scene);
  return scene;
}

function made(id: string, mitigation: string | undefined): Scene {
  const scenario = CATALOGUE.find((it) => it.id === id);
  if (scenario === undefined) throw new Error(`there is no ${id}`);
  const written = shortened(id, scenario.schedule);
  const schedule = mitigation === undefined ? written : mitigate(written, mitigation);
  return sceneOf(schedule, snapshotOf(schedule, judgeAsExpected(schedule, scenario.expect)));
}
