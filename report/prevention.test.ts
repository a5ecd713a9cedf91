import { expect, test } from 'vitest';
import { findScenario } from '../scenarios/catalogue.js';
import { preventions } from './prevention.js';

test.each([
  ['S01', ['nodes=5']],
  ['S03', ['persistence=always', 'restart-delay=ttl']],
  ['S05', ['persistence=always', 'restart-delay=ttl (unavailable)']],
  ['S16', ['drift-allowance=2%']],
  ['S24', []],
  ['S34', ['token-check=on']],
])('what prevents %s', (id, expected) => {
  const found = preventions(findScenario(id).schedule, []);
  expect(found.map((it) => (it.verdict === 'safe' ? it.mitigation : `${it.mitigation} (${it.verdict})`))).toEqual(
    expected,
  );
});
