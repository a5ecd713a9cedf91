import { expect, it } from 'vitest';
import { longestSaid } from './said-times.js';

const msIn = (text: string): number | undefined => longestSaid([text])?.ms;

it('reads how long something takes, by what comments say', () => {
  expect(msIn('// A big file takes 20 to 40 minutes.')).toBe(2_400_000);
  expect(msIn('/* posting\n * takes the better part of a minute */')).toBe(60_000);
  expect(msIn('// needs 30 to 90 seconds')).toBe(90_000);
  expect(msIn('// these take minutes')).toBe(120_000);
  expect(msIn('// One piece is 20 to 40 seconds with the model.\n// It runs for two hours.')).toBe(7_200_000);
  expect(msIn('// feature films take a good quarter of an hour on small machines')).toBe(900_000);
  expect(msIn('// takes about half an hour')).toBe(1_800_000);
});

it('takes the whole sentence', () => {
  expect(longestSaid(['// Nightly. A render takes\n// ten minutes. Then it is sent.'])?.sentence).toBe(
    'A render takes ten minutes',
  );
});

it('reads nothing else as a time', () => {
  expect(msIn('// takes as many as there are')).toBeUndefined();
  expect(msIn('// episodes are 1-2 hours, cut in pieces')).toBeUndefined();
  expect(msIn("const takes = '10 minutes';")).toBeUndefined();
  expect(msIn('// the last seconds')).toBeUndefined();
});
