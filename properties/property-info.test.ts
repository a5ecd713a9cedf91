import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { PropertyId } from '../scenarios/index.js';
import { PROPERTIES } from './property-info.js';
import { SEARCHED } from './property-lists.js';

const ids = Object.keys(PROPERTIES) as PropertyId[];

const HEAD = `# Properties

Lockstep checks these properties. Code, files and output use the same names.

* *Belief*: what clients conclude about their locks.
* *State*: what the nodes hold to back it.
* *Effect*: what reaches the protected resource.
* *Liveness*: what blocks other clients for longer than necessary.
* *Harness*: what makes the simulator trustworthy.

Assumptions have the names of \`properties/assumptions.ts\`. [results.md](results.md) gives the bound of each to the microsecond.

## The three guarantees of the redis.io page

`;

function conditions(id: PropertyId): string {
  const { assumes, while: during } = PROPERTIES[id];
  const words = assumes.map((it) => `\`${it}\``).join(', ');
  return [words, during].filter(Boolean).join('; while ') || 'nothing';
}

function text(): string {
  const guarantees = ids.flatMap((id) => {
    const { guarantee, definition } = PROPERTIES[id];
    return guarantee === undefined ? [] : [`| ${guarantee} | \`${id}\` | ${definition} | ${conditions(id)} |`];
  });
  const rows = ids.map((id) => {
    const { kind, definition, monitor } = PROPERTIES[id];
    return `| \`${id}\` | ${kind} | ${definition} | ${conditions(id)} | \`${monitor}\` |`;
  });
  return [
    `${HEAD}| guarantee | property | what is checked | assumes |`,
    '|---|---|---|---|',
    ...guarantees,
    '',
    '## All properties',
    '',
    '| id | kind | definition | assumes | checked in |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

describe('every property', () => {
  it('is in the documentation as it is in the code', async () => {
    await expect(text()).toMatchFileSnapshot('../docs/properties.md');
  });

  it.each(ids)('%s is watched where the table says so, as what it says', (id) => {
    const { kind, monitor } = PROPERTIES[id];
    const source = readFileSync(new URL(`../${monitor}`, import.meta.url), 'utf8');
    if (kind === 'harness') return;
    expect(source).toContain(`'${id}'`);
    expect(source).toContain(`'${kind}'`);
  });

  it('that is not about the harness has a monitor that searches listen to', () => {
    const watched = ids.filter((id) => PROPERTIES[id].kind !== 'harness');
    expect([...watched].sort()).toEqual([...SEARCHED].sort());
  });

  it('three of them are the guarantees of the redis.io page', () => {
    expect(ids.filter((id) => PROPERTIES[id].guarantee !== undefined)).toEqual([
      'mutual-exclusion',
      'deadlock-free',
      'fault-tolerance',
    ]);
  });
});
