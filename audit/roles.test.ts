import { expect, it } from 'vitest';
import { type Role, roleOf } from './roles.js';
import { readSource } from './shapes.js';

/** What the only parameter of a function is for. */
function role(parameter: string): Role | undefined {
  const [shape] = readSource(`function run(${parameter}) {}`, 'lock.ts').shapes;
  return shape?.parameters.map((it) => roleOf(it))[0];
}

it.each([
  ['screen: (from: string, to: string) => Promise<boolean>', 'unknown'],
  ['isAllowed: (id: string) => boolean', 'unknown'],
  ['work: () => Promise<boolean>', 'work'],
  ['send: () => Promise<void>', 'work'],
  ['period: number', 'delay'],
  ['period: string', 'key'],
  ['names: Iterable<string>', 'keys'],
] as const)('tells what %s is for', (parameter, expected) => {
  expect(role(parameter)).toBe(expected);
});
