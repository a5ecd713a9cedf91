import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { changesFor } from './advice.js';
import { describeAdvised } from './describe-advised.js';
import { parseSystem } from './parse-system.js';

const FOLDER = new URL('../examples/systems/', import.meta.url);

it.each(readdirSync(FOLDER))('%s with what is advised is read as the advised system', (file) => {
  const description = JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8'));
  const system = parseSystem(description);
  const { advised } = changesFor(system);
  const written = describeAdvised(description, system, advised);
  // What was a default and is advised otherwise is none any more.
  expect({ ...parseSystem(written), defaulted: [] }).toEqual({ ...advised, defaulted: [] });
});
