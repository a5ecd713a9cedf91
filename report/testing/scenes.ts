import { judgeAsExpected } from '../../properties/expectation.js';
import { loadCatalogue } from '../../scenarios/catalogue.js';
import { mitigate, type Scenario } from '../../scenarios/index.js';
import { type Scene, sceneOf } from '../picture/scene.js';
import { takenOf } from '../taken.js';

export const CATALOGUE: readonly Scenario[] = loadCatalogue();

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
  const schedule = mitigation === undefined ? scenario.schedule : mitigate(scenario.schedule, mitigation);
  return sceneOf(schedule, takenOf(schedule, judgeAsExpected(schedule, scenario.expect)));
}
