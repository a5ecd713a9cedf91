import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { changesFor } from './advice.js';
import { hazardsOf } from './hazards.js';
import { parseSystem } from './parse-system.js';
import { withTtl } from './synthesis.js';
import type { System } from './system.js';

/*
 * Changes are made one after the other, on running systems: none of the systems in between fails where the one before the
 * changes did not.
 */

const FOLDER = new URL('../examples/systems/', import.meta.url);

function failing(system: System): string[] {
  return hazardsOf(system).flatMap(({ id, holds }) => (holds ? [] : [id]));
}

/** The systems on the way: clocks first, then nodes, then clients, each of which is as safe as its own settings. */
function onTheWay(before: System, after: System): System[] {
  const clocks = { ...before, clocks: after.clocks };
  const nodes = { ...clocks, nodes: after.nodes };
  return [clocks, nodes, after];
}

describe.each(readdirSync(FOLDER).filter((name) => name.endsWith('.json')))('%s', (file) => {
  it('is never less safe on the way', () => {
    const system = parseSystem(JSON.parse(readFileSync(new URL(file, FOLDER), 'utf8')));
    const { changes, advised } = changesFor(system);
    const known = failing(system);
    for (const between of onTheWay(system, advised))
      expect(failing(between).filter((id) => !known.includes(id))).toEqual([]);
    // Those of clients are the last.
    const ids = changes.map(({ id }) => id);
    const ofClients = ids.filter((id) => ['allowance', 'ttl', 'own-tokens', 'guard', 'fencing'].includes(id));
    expect(ids.slice(ids.length - ofClients.length)).toEqual(ofClients);
  });
});

it('would be less safe if clients had longer locks before nodes stay away for as long', () => {
  const system = parseSystem({
    nodes: { count: 3, persistence: 'none', restart: '10s', supervisor: 'systemd' },
    client: { ttl: '10s' },
    pauses: { process: '12s' },
    work: { longest: '1s' },
  });
  const { changes, advised } = changesFor(system);
  expect(changes.map(({ id }) => id)).toEqual(['restart-delay', 'ttl']);
  expect(failing(system)).toEqual(['writes']);
  expect(failing(withTtl(system, advised.client.ttlMs))).toEqual(['memory']);
  expect(failing({ ...system, nodes: advised.nodes })).toEqual(['writes']);
});
