import { expect, it } from 'vitest';
import { isQuantity } from './value-names.js';

it.each(['lease_fence', 'leaseFence', 'epoch', 'totalCents'])('takes %s for a number', (name) => {
  expect(isQuantity(name)).toBe(true);
});

it.each(['fenced', 'defence', 'name'])('takes %s for no number', (name) => {
  expect(isQuantity(name)).toBe(false);
});
