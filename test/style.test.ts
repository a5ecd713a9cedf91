import { describe, expect, it } from 'vitest';
import { measureStyle } from './measure-style.js';

describe('the style of the house (npm run style)', () => {
  const { style, undocumented } = measureStyle();

  it('has no file of more than 400 lines', () => expect(style.files.max).toBeLessThanOrEqual(400));

  it('has no any, no assertion that a value is there, and no cycle', () => {
    expect({ any: style.any, nonNull: style.nonNull, cycles: style.cycles }).toEqual({ any: 0, nonNull: 0, cycles: 0 });
  });

  it('has a docstring for all that is exported', () => expect(undocumented).toEqual([]));

  it('has no function of more than 70 lines', () => {
    expect(style.functions.max).toBeLessThanOrEqual(70);
    expect(style.functions.p99).toBeGreaterThan(10);
  });
});
