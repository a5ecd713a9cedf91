import { parseDuration } from '../../scenarios/duration.js';
import { anything, record } from '../../scenarios/grammar-parts.js';
import { InputError, pointer, ScheduleError, show } from '../../scenarios/input-error.js';
import { percent } from '../../scenarios/mitigation-values.js';
import { isPlainObject } from '../../scenarios/plain-data.js';
import { readAs } from '../../scenarios/read-as.js';
import type { Bin, CauseName, HoldLength, Rate, Rates } from './model.js';
import { typicalOf } from './typical.js';

/** How causes are called in a description, in the order in which they are told of. */
export const CAUSE_KEYS: Readonly<Record<CauseName, string>> = {
  crash: 'crashes',
  powerLoss: 'powerLosses',
  powerLossOfAll: 'powerLossesOfAll',
  failover: 'failovers',
  dataLoss: 'dataLosses',
  nodeStep: 'clockSteps',
  nodeStepOfAll: 'clockStepsOfAll',
  clientStep: 'clientClockSteps',
  pause: 'pauses',
  suspend: 'suspends',
  vmPause: 'vmPauses',
  partition: 'partitions',
  lateWrite: 'lateWrites',
};

const CAUSES = Object.keys(CAUSE_KEYS) as CauseName[];

/** The section `rates` of a description, read. */
export interface SystemRates {
  readonly locksPerYear: number;
  /** Of all holds, in so many another client waits; 0 to 1. */
  readonly contended: number;
  readonly holds: readonly HoldLength[];
  /** From the last look at the lock to the sending of the write, µs. */
  readonly gapUs: number;
  readonly rates: Rates;
  /** Causes of which a published range is taken. */
  readonly typical: readonly CauseName[];
}

/** Which end of a published range is taken. */
export type RangeEnd = 'low' | 'high';

const section = record('rates', {
  locks: record('locks', {
    perDay: anything('a number of locks').exactOptional(),
    perYear: anything('a number of locks').exactOptional(),
    last: anything('how long locks are held').exactOptional(),
    contended: anything('a percentage').exactOptional(),
    gap: anything('a duration').exactOptional(),
  }),
  crashes: anything('a rate').exactOptional(),
  powerLosses: anything('a rate').exactOptional(),
  powerLossesOfAll: anything('a rate').exactOptional(),
  failovers: anything('a rate').exactOptional(),
  dataLosses: anything('a rate').exactOptional(),
  clockSteps: anything('a rate').exactOptional(),
  clockStepsOfAll: anything('a rate').exactOptional(),
  clientClockSteps: anything('a rate').exactOptional(),
  pauses: anything('a rate').exactOptional(),
  suspends: anything('a rate').exactOptional(),
  vmPauses: anything('a rate').exactOptional(),
  partitions: anything('a rate').exactOptional(),
  lateWrites: anything('a rate').exactOptional(),
});

type Locks = ReturnType<typeof readSection>['locks'];

function readSection(value: unknown) {
  return readAs(section, value, '/rates');
}

const DEFAULT_GAP_US = 1_000;

/**
 * Reads the section `rates` of a description.
 *
 * @param longestUs - The longest work, where the section does not say how long locks are held.
 * @throws {@link InputError} in one sentence, with the place of what is wrong.
 */
export function parseRates(value: unknown, longestUs: number, end: RangeEnd = 'high'): SystemRates {
  if (value === undefined) {
    throw new ScheduleError(
      '/rates',
      'missing; a risk needs to know how often things happen, as in { "locks": { "perDay": 1000 }, "crashes": { "perMonth": 1 } }',
    );
  }
  const written = readSection(value);
  const rates: Partial<Record<CauseName, Rate>> = {};
  const typical: CauseName[] = [];
  for (const cause of CAUSES) {
    const entry = (written as Readonly<Record<string, unknown>>)[CAUSE_KEYS[cause]];
    if (entry === undefined) continue;
    if (entry === 'typical') typical.push(cause);
    rates[cause] = rateOf(cause, entry, end);
  }
  return { ...locksOf(written.locks, longestUs), rates, typical };
}

function at(...keys: readonly string[]): string {
  return pointer('/rates', ...keys);
}

/** Reads a value; an error in it is one of this place. */
function read<T>(place: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof InputError) || error instanceof ScheduleError) throw error;
    throw new ScheduleError(place, error.message);
  }
}

function positive(place: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
  throw new ScheduleError(place, `${show(value)} is not a number from 0 up`);
}

const DAYS = 365;
const PERIODS: Readonly<Record<string, number>> = { perHour: 24 * DAYS, perDay: DAYS, perMonth: 12, perYear: 1 };

function locksOf(locks: Locks, longestUs: number): Pick<SystemRates, 'locksPerYear' | 'contended' | 'holds' | 'gapUs'> {
  const { perDay, perYear, last, contended, gap } = locks;
  if ((perDay === undefined) === (perYear === undefined))
    throw new ScheduleError(at('locks'), 'say how many locks there are, perDay or perYear, and only one of them');
  const locksPerYear =
    perDay === undefined ? positive(at('locks', 'perYear'), perYear) : DAYS * positive(at('locks', 'perDay'), perDay);
  return {
    locksPerYear,
    contended:
      contended === undefined ? 1 : read(at('locks', 'contended'), () => percent(String(contended))) / 1_000_000,
    holds: last === undefined ? [{ us: longestUs, share: 1 }] : holdsOf(last),
    gapUs: gap === undefined ? DEFAULT_GAP_US : read(at('locks', 'gap'), () => parseDuration(String(gap))),
  };
}

function holdsOf(last: unknown): HoldLength[] {
  const place = at('locks', 'last');
  if (!Array.isArray(last)) return [{ us: read(place, () => parseDuration(String(last))), share: 1 }];
  const holds = last.map((entry, i): HoldLength => {
    const own = at('locks', 'last', String(i));
    if (!isPlainObject(entry) || entry.for === undefined || entry.share === undefined)
      throw new ScheduleError(own, 'write it like { "share": "90%", "for": "200ms" }');
    return {
      us: read(own, () => parseDuration(String(entry.for))),
      share: read(own, () => percent(String(entry.share))) / 1_000_000,
    };
  });
  const sum = holds.reduce((total, { share }) => total + share, 0);
  if (Math.abs(sum - 1) > 1e-9) throw new ScheduleError(place, `the shares add up to ${100 * sum} %, not to 100 %`);
  return holds;
}

/** One rate, or several that make a histogram together. */
function rateOf(cause: CauseName, value: unknown, end: RangeEnd): Rate {
  const key = CAUSE_KEYS[cause];
  if (value === 'typical') {
    const typical = typicalOf(cause);
    if (typical === undefined)
      throw new ScheduleError(
        at(key),
        'no range is published that could be taken for typical; see lockstep risk --typical',
      );
    return { perYear: typical.perYear[end === 'low' ? 0 : 1], bins: [{ ...rangeOf(typical.size), share: 1 }] };
  }
  const entries = Array.isArray(value) ? value : [value];
  const bars = entries.map((entry, i) => barOf(cause, entry, Array.isArray(value) ? at(key, String(i)) : at(key)));
  const perYear = bars.reduce((sum, it) => sum + it.perYear, 0);
  const bins = bars.map(({ perYear: own, from, to }): Bin => ({ from, to, share: perYear === 0 ? 0 : own / perYear }));
  return { perYear, bins };
}

interface Bar {
  readonly perYear: number;
  readonly from: number;
  readonly to: number;
}

function barOf(cause: CauseName, entry: unknown, place: string): Bar {
  const size = sizeKey(cause);
  const like = cause === 'lateWrite' ? '"oneIn": 1000000' : '"perMonth": 1';
  const sized = size === null ? '' : `, "${size}": "1s..10s"`;
  if (!isPlainObject(entry))
    throw new ScheduleError(place, `${show(entry)} is no rate; write it like { ${like}${sized} }, or a list of such`);
  const periods = cause === 'lateWrite' ? ['oneIn'] : Object.keys(PERIODS);
  const known = [...periods, ...(size === null ? [] : [size])];
  const other = Object.keys(entry).find((it) => !known.includes(it));
  if (other !== undefined) throw new ScheduleError(place, `${show(other)} is not one of ${known.join(', ')}`);
  const given = periods.filter((it) => entry[it] !== undefined);
  const [period = ''] = given;
  if (given.length !== 1) throw new ScheduleError(place, `say how often, by one of ${periods.join(', ')}`);
  const number = positive(`${place}/${period}`, entry[period]);
  const perYear = period === 'oneIn' ? oneIn(place, number) : number * (PERIODS[period] ?? 0);
  if (size === null) return { perYear, from: 1, to: 1 };
  if (entry[size] === undefined)
    throw new ScheduleError(place, `"${size}" is missing; write it like "${size}": "1s..10s"`);
  return { perYear, ...read(`${place}/${size}`, () => rangeOf(String(entry[size]))) };
}

function oneIn(place: string, number: number): number {
  if (number >= 1) return 1 / number;
  throw new ScheduleError(place, `${number} is less than 1; "oneIn": 1000 stands for one write in a thousand`);
}

/** How the extent of a cause is called; `null` where it has none. */
function sizeKey(cause: CauseName): 'for' | 'by' | null {
  if (cause === 'dataLoss') return null;
  return cause === 'nodeStep' || cause === 'nodeStepOfAll' || cause === 'clientStep' ? 'by' : 'for';
}

/** `1s..10s`, or one duration; at least a microsecond. */
function rangeOf(text: string): Pick<Bin, 'from' | 'to'> {
  const [low = '', high = low, ...rest] = text.split('..');
  if (rest.length > 0) throw new InputError(`${show(text)} is no range; write it like 1s..10s`);
  const [from, to] = [Math.max(1, parseDuration(low)), Math.max(1, parseDuration(high))];
  if (from > to) throw new InputError(`${show(text)} does not go up; write the lower value first`);
  return { from, to };
}
