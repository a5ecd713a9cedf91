import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { judgeAsExpected } from '../../properties/expectation.js';
import type { Scenario } from '../../scenarios/index.js';
import { htmlReport } from '../html.js';
import { payloadOf } from '../payload-of.js';
import { CATALOGUE } from './scenes.js';

/** The page of a scenario, and what its run comes to in Node. */
export interface WrittenPage {
  readonly url: string;
  readonly hash: string;
  readonly verdict: string;
  readonly events: number;
}

/** The scenario with this id. @throws Error if there is none. */
export function scenarioOf(id: string): Scenario {
  const scenario = CATALOGUE.find((it) => it.id === id);
  if (scenario === undefined) throw new Error(`there is no ${id}`);
  return scenario;
}

/** Writes pages of scenarios, by id, into a folder: each once. */
export function pagesIn(folder: string): (id: string) => WrittenPage {
  const known = new Map<string, WrittenPage>();
  return (id) => {
    const page = known.get(id) ?? writePage(folder, id);
    known.set(id, page);
    return page;
  };
}

function writePage(folder: string, id: string): WrittenPage {
  const scenario = scenarioOf(id);
  const { schedule } = scenario;
  const judgement = judgeAsExpected(schedule, scenario.expect);
  const path = join(folder, `${id}.html`);
  writeFileSync(path, htmlReport(payloadOf({ id, schedule, scenario, judgement, replay: `lockstep replay ${id}` })));
  const { verdict, run } = judgement;
  return { url: pathToFileURL(path).href, hash: run.hash, verdict, events: run.trace.length };
}
