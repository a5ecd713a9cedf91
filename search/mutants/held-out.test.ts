import { expect, it } from 'vitest';
import { isHeldOut } from './held-out.js';
import { MUTANTS } from './registry.js';

it('holds out about a third of the names, and always the same', () => {
  const names = Array.from({ length: 600 }, (_, i) => `M${i}`);
  const held = names.filter(isHeldOut).length;
  expect(held / names.length).toBeGreaterThan(0.25);
  expect(held / names.length).toBeLessThan(0.4);
  expect(names.slice(0, 100).filter(isHeldOut).slice(0, 5)).toEqual(['M1', 'M4', 'M7', 'M8', 'M11']);
});

it('holds out some of the planted bugs, and leaves some to tune by', () => {
  const held = MUTANTS.filter(({ id }) => isHeldOut(id)).length;
  expect(held).toBeGreaterThan(0.2 * MUTANTS.length);
  expect(held).toBeLessThan(0.5 * MUTANTS.length);
});
