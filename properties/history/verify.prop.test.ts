import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { HistoryLine } from '../../scenarios/history-line.js';
import { SOUND } from './rules.js';
import { verifyBy, verifyHistory } from './verify.js';

/** One lock on the only resource, in true time: it comes `gapUs` after the end of the one before. */
interface Turn {
  readonly gapUs: number;
  readonly holdUs: number;
  readonly client: number;
  /**
   * How it ends; `unknown` is an acquisition of which nobody was told that it succeeded, `died` a crash that another
   * observer notes, and `shorter` an extension for less that is carried out and never answered.
   */
  readonly end: 'release' | 'deadline' | 'extended' | 'unknown' | 'died' | 'shorter';
}

const MOST_ERROR_US = 20;

const turn = (gapUs: fc.Arbitrary<number>): fc.Arbitrary<Turn> =>
  fc.record({
    gapUs,
    holdUs: fc.integer({ min: 2, max: 200 }),
    client: fc.nat(2),
    end: fc.constantFrom('release', 'deadline', 'extended', 'unknown', 'died', 'shorter'),
  });
const offset = fc.integer({ min: -MOST_ERROR_US, max: MOST_ERROR_US });
const offsets = fc.tuple(offset, offset, offset);

/** What clients would record of these turns whose clocks are so far from the true time. */
function record(turns: readonly Turn[], clocks: readonly number[], errorUs: number): string[] {
  const lines: string[] = [];
  let nowUs = 1_000;
  turns.forEach(({ gapUs, holdUs, client, end }, i) => {
    const fromUs = nowUs + gapUs;
    const untilUs = fromUs + holdUs;
    nowUs = untilUs;
    const at = (trueUs: number) => ({ lock: `l${i}`, atUs: trueUs + (clocks[client] ?? 0), errorUs });
    const ttlMs = 1_000;
    const name = `c${client}.${i}`;
    const events: HistoryLine[] = [{ type: 'acquire', ...at(fromUs - 300), client: name, resources: ['a'], ttlMs }];
    const acquired = (validUs: number) =>
      events.push({ type: 'acquired', ...at(fromUs), validUs, fencingToken: { counter: i, attempt: null } });
    if (end === 'release' || end === 'shorter' || end === 'died') acquired(holdUs + 50);
    if (end === 'release') events.push({ type: 'release', ...at(untilUs) });
    if (end === 'shorter') events.push({ type: 'extend', ...at(untilUs), ttlMs: ttlMs - 1 });
    if (end === 'died') {
      const observer = clocks[(client + 1) % clocks.length] ?? 0;
      events.push({ type: 'crashed', client: name, atUs: untilUs + observer, errorUs });
    }
    if (end === 'deadline') acquired(holdUs);
    if (end === 'extended') {
      const half = Math.floor(holdUs / 2);
      acquired(half);
      events.push({ type: 'extend', ...at(fromUs), ttlMs });
      events.push({ type: 'extended', ...at(fromUs + half), validUs: holdUs - half });
    }
    lines.push(...events.map((event) => JSON.stringify(event)));
  });
  return lines;
}

test('who held one after the other is never called violated, whatever their clocks show within the error', () => {
  const turns = fc.array(turn(fc.nat(30)), { maxLength: 12 });
  fc.assert(
    fc.property(turns, offsets, (drawn, clocks) => {
      expect(verifyHistory(record(drawn, clocks, MOST_ERROR_US)).violations).toEqual([]);
    }),
    { numRuns: 2_000 },
  );
});

test('two that overlap by more than their clocks can be wrong are always found', () => {
  const overlapping = fc.tuple(turn(fc.constant(0)), fc.integer({ min: 1, max: 100 }), turn(fc.constant(0)), offsets);
  fc.assert(
    fc.property(overlapping, ([first, byUs, second, clocks]) => {
      const tooLongUs = byUs + 4 * MOST_ERROR_US;
      const turns: Turn[] = [
        { ...first, end: 'release', holdUs: first.holdUs + tooLongUs },
        { ...second, end: 'deadline', holdUs: second.holdUs + tooLongUs, gapUs: -tooLongUs },
      ];
      expect(verifyHistory(record(turns, clocks, MOST_ERROR_US)).verdict).toBe('violated');
    }),
    { numRuns: 2_000 },
  );
});

test.each([{ shrinks: false }, { capsShorter: false }, { heedsCrashes: false }])(
  'a checker with %o would be noticed here',
  (planted) => {
    const found = fc.check(
      fc.property(fc.array(turn(fc.nat(30)), { maxLength: 12 }), offsets, (drawn, clocks) => {
        return verifyBy({ ...SOUND, ...planted }, record(drawn, clocks, MOST_ERROR_US)).verdict !== 'violated';
      }),
      { numRuns: 2_000, seed: 1 },
    );
    expect(found.failed).toBe(true);
  },
);
