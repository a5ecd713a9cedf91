import { type PolicyChange, PROFILES } from '../../deviations/index.js';
import { notAProfile } from '../../scenarios/checks.js';
import { parseDuration } from '../../scenarios/duration.js';
import { InputError, show } from '../../scenarios/input-error.js';
import { integer, percent, wholeMs } from '../../scenarios/mitigation-values.js';
import { named } from '../../scenarios/named.js';
import { meant } from '../../scenarios/nearest.js';
import { type Axis, axisOver, USUAL_RANGES } from './axis.js';
import { FAULT_FREE, PARAMETERS, type ParameterName, type Point } from './point.js';
import type { SweepPlan } from './sweep.js';

const NAMES = Object.keys(PARAMETERS) as ParameterName[];
/** More would take long, and could not be seen. */
const MOST_VALUES = 1_000;

/** How many values a range is divided into, where the person does not say. */
interface Room {
  readonly across: number;
  readonly up: number;
}

/** The client and the nodes that are swept, where they are not the production lock on nodes that keep nothing. */
type Subject = Pick<SweepPlan, 'profile' | 'persistence'>;

/** A parameter as a person gives it: one value, or several to sweep over. */
interface Given {
  readonly name: ParameterName;
  readonly fixed: number | null;
  readonly axis: ((most: number) => Axis) | null;
}

/**
 * Reads `ttl=1s..30s drift=0..2% nodes=3`: two parameters with several values, or with a name alone, are the axes; the
 * others, with one value, are fixed.
 *
 * @throws InputError in one sentence if it is anything else.
 */
export function sweepPlanOf(words: readonly string[], room: (yValues: Axis) => Room, subject: Subject = {}): SweepPlan {
  const given = words.map(givenOf);
  const twice = given.find(({ name }, i) => given.findIndex((it) => it.name === name) !== i);
  if (twice !== undefined) throw new InputError(`${show(twice.name)} is named twice; name each parameter once`);
  const axes = given.flatMap(({ axis }) => (axis === null ? [] : [axis]));
  const [first, second] = axes;
  if (first === undefined || second === undefined || axes.length > 2) {
    throw new InputError(
      `a sweep has two axes, not ${axes.length}; write it like ttl=1s..30s drift=0..2%, others with one value each`,
    );
  }
  const fixed = Object.fromEntries(given.flatMap(({ name, fixed }) => (fixed === null ? [] : [[name, fixed]])));
  const y = second(USUAL_ROOM.up);
  const x = first(room(y).across);
  const client = subject.profile === undefined ? {} : clientOf(subject.profile);
  return {
    x,
    y,
    ...subject,
    ...(client.change === undefined ? {} : { change: client.change }),
    base: strikingAtOnce(
      { ...FAULT_FREE, ...client.allowances, ...fixed },
      given.map(({ name }) => name),
    ),
  };
}

/**
 * Reads `ttl=10s,drift=0.2%`: where a configuration is on the map of a plan.
 *
 * @throws InputError in one sentence if it has not one value for each axis, or lies outside of the map.
 */
export function placeOn({ x, y }: SweepPlan, text: string): { readonly x: number; readonly y: number } {
  const given = text.split(',').map(givenOf);
  const on = ({ name, values }: Axis): number => {
    const found = given.find((it) => it.name === name)?.fixed ?? null;
    if (found === null || given.length !== 2)
      throw new InputError(`${show(text)} must have one value for each axis of the map, ${x.name} and ${y.name}`);
    if (found < Math.min(...values) || found > Math.max(...values))
      throw new InputError(`${show(text)} is not on the map: its ${name} is outside of the axis`);
    return found;
  };
  return { x: on(x), y: on(y) };
}

/** How a client waits for answers is left out: the optimal adversary lets requests to all but the voters get lost. */
const WAITING: readonly string[] = [
  'asks-in-turn',
  'awaits-whole-clean-up',
  'release-awaits-all',
  'releases-in-turn',
  'settles-with-all',
];

/** What a known client does otherwise, and the allowance that it takes unless another is asked for. */
function clientOf(profile: string): {
  change?: PolicyChange;
  allowances?: Pick<Point, 'drift-allowance' | 'fixed-allowance'>;
} {
  const policy = Object.hasOwn(PROFILES, profile) ? PROFILES[profile] : undefined;
  if (policy === undefined) throw new InputError(`--profile: ${notAProfile(profile)}`);
  const { deviations, habits, settings } = policy;
  const { driftPpm, driftUs, minValidityUs, lockDelayMs } = settings;
  return {
    change: {
      deviations: deviations.filter((it) => !WAITING.includes(it)),
      habits,
      settings: { minValidityUs, lockDelayMs },
    },
    allowances: { 'drift-allowance': driftPpm, 'fixed-allowance': driftUs },
  };
}

/** A grid that does not depend on anybody's terminal. */
export const USUAL_ROOM: Room = { across: 32, up: 21 };

/** Faulty voters to which nothing else happens forget: they crash, and are back at once. */
function strikingAtOnce(base: Point, named: readonly ParameterName[]): Point {
  const isIdle = named.includes('faulty-voters') && !named.includes('step') && !named.includes('restart-delay');
  return isIdle ? { ...base, 'restart-delay': 0 } : base;
}

function givenOf(word: string): Given {
  const [before = '', ...rest] = word.split('=');
  const name = NAMES.find((it) => it === before.trim());
  if (name === undefined) {
    throw new InputError(`${show(before)} is no parameter of a sweep; ${meant(before, NAMES, 'there are')}`);
  }
  if (rest.length === 0) return { name, fixed: null, axis: (most) => axisOver(name, USUAL_RANGES[name], most) };
  return named(name, (text) => valuesOf(name, text))(rest.join('='));
}

function valuesOf(name: ParameterName, text: string): Given {
  const range = /^(.+?)\.\.(.+?)(?:\/(\d+))?$/.exec(text);
  if (range !== null) {
    const [, from = '', to = '', count] = range;
    const [low, high] = [readValue(name, from), readValue(name, to)];
    if (low >= high) throw new InputError(`${show(text)} does not go up; write the lower value first`);
    const steps = count === undefined ? null : integer(count, 2, MOST_VALUES);
    return { name, fixed: null, axis: (most) => axisOver(name, { low, high }, steps ?? most) };
  }
  const values = text.split(',').map((part) => readValue(name, part));
  if (values.length === 1) return { name, fixed: values[0] ?? null, axis: null };
  return { name, fixed: null, axis: () => ({ name, values: [...new Set(values)].sort((a, b) => a - b) }) };
}

function readValue(name: ParameterName, given: string): number {
  const text = given.trim();
  const { unit, least, most } = PARAMETERS[name];
  if (unit === 'count') return integer(text, least, most);
  const value = unit === 'ppm' ? percent(text) : name === 'ttl' ? 1000 * wholeMs(text) : parseDuration(text);
  if (value <= most) return value;
  throw new InputError(
    `${show(text)} is more than can be swept; at most ${unit === 'ppm' ? `${most / 10_000}%` : `${most / 1_000_000}s`}`,
  );
}
