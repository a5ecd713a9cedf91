import { expect, it } from 'vitest';
import { InputError } from '../scenarios/index.js';
import { checkOptions, DEFAULT_KINDS, untestable } from './options.js';

it.each([
  [{ faults: { crashes: 1 } }, 'faults.crashes: not a field of faults; did you mean "crash"?'],
  [{ faults: { restartDelayMs: 0 } }, 'faults.restartDelayMs: it belongs beside faults, not into them'],
  [{ crash: 1 }, 'crash: it belongs into faults: { crash: … }'],
  [{ node: 1 }, 'node: not a field of the options; did you mean "nodes"?'],
  [{ nodes: '1' }, 'nodes: "1" is not a whole number from 1 to 31'],
  [{ nodes: 32 }, 'nodes: 32 is not a whole number from 1 to 31'],
  [{ kinds: ['believe'] }, 'kinds.0: "believe" is unknown; did you mean "belief"?'],
  [{ kinds: [] }, 'kinds: empty; it must be a list of at least one kind'],
  [{ faults: { loss: 2 } }, 'faults.loss: 2 is not a number from 0 to 1'],
  [{ faults: { crash: 0.5 } }, 'faults.crash: 0.5 is not a whole number from 0 to 100'],
  [{ faults: null }, 'faults: null is not faults (an object)'],
  [{ runs: 0 }, 'runs: 0 is not a whole number from 1 to 1000000'],
  [{ ttlMs: 0 }, 'ttlMs: 0 is not a whole number of milliseconds from 1 to 2147483647'],
  [
    { commandTimeoutMs: Number.NaN },
    'commandTimeoutMs: NaN is not a whole number of milliseconds from 1 to 2147483647',
  ],
  [{ signal: 5000 }, 'signal: 5000 is not an AbortSignal'],
  ['x', '"x" is not the options (an object)'],
])('refuses %j', (given, problem) => {
  expect(() => checkOptions(given)).toThrow(new InputError(`expectSafe: ${problem}`));
});

it('takes what is documented, and what is left undefined', () => {
  const { signal } = new AbortController();
  const faults = { crash: 1, pause: 1, partition: 1, wallStep: 1, skewMs: 5, driftPpm: 500, loss: 0.5, delay: 1 };
  const all = { faults, runs: 1, seed: '', nodes: 31, clients: 1, ttlMs: 1, restartDelayMs: 0, commandTimeoutMs: null };
  const rest = { kinds: ['effect'], reordering: false, reportTo: 'x', replay: 'x.json', signal };
  expect(() => checkOptions({ ...all, ...rest })).not.toThrow();
  expect(() => checkOptions({ nodes: undefined, faults: { crash: undefined } })).not.toThrow();
});

it('knows what cannot fail', () => {
  expect(DEFAULT_KINDS).not.toContain('effect');
  expect(untestable(['belief', 'effect'], {})).toEqual(['effect']);
  expect(untestable(['belief', 'effect'], { faults: { pause: 1 } })).toEqual([]);
  expect(untestable(['belief', 'effect'], { faults: { wallStep: 1 }, clients: 1 })).toEqual(['belief']);
});
