import { expect, it } from 'vitest';
import { CATALOGUE } from '../testing/scenes.js';
import { addressOf } from './address.js';
import { fragmentAt, playgroundLink } from './link.js';

it('leads to each scenario', () => {
  for (const { id } of CATALOGUE)
    expect(addressOf(fragmentAt({ scenario: id }))).toEqual({ ...addressOf(''), tab: 'scenarios', scenario: id });
});

it('is a command as long as the playground is nowhere, and then a link', () => {
  expect(playgroundLink({ scenario: 'S03' }, '')).toBe('`lockstep playground --at S03 --open`');
  expect(playgroundLink({ scenario: 'S03' }, 'https://example.org/')).toBe(
    '[S03](https://example.org/#scenarios&scenario=S03)',
  );
});
