import { isDeepStrictEqual } from 'node:util';
import {
  type Effect,
  HEALING,
  initialState,
  type LockEvent,
  type LockPolicy,
  type LockState,
  type Settings,
  SOUND,
  step,
} from '../../core/index.js';
import { InputError, show } from '../../scenarios/input-error.js';

/** A step whose recorded and replayed effects differ. */
export interface StepDifference {
  readonly lock: string;
  /** Index of the event among the recorded events of its lock, from 0. */
  readonly event: number;
  readonly recorded: readonly Effect[];
  readonly replayed: readonly Effect[];
}

/** Result of a replay of recorded steps. */
export interface StepsReplay {
  readonly locks: number;
  readonly events: number;
  /** The first difference of each lock. */
  readonly differences: readonly StepDifference[];
}

/** A line of `recording.steps()`. */
interface LockSteps {
  readonly schema: 'lockstep.steps/1';
  readonly lock: string;
  readonly settings: Settings;
  readonly rules: 'sound' | 'healing';
  readonly from: LockState | null;
  readonly entries: readonly (LockEvent | Effect)[];
}

const EFFECTS: readonly string[] = ['send', 'arm', 'cancel', 'report'];

/**
 * Replays the recorded events of locks with the state machine, and compares the effects with the recorded ones.
 *
 * @param lines - The lines that `recording.steps()` returned.
 * @throws InputError naming the first line that is not one of them.
 */
export function replaySteps(lines: Iterable<string>): StepsReplay {
  const differences: StepDifference[] = [];
  let [locks, events, number] = [0, 0, 0];
  for (const text of lines) {
    number++;
    if (text.trim() === '') continue;
    const one = replayOne(read(text, number));
    locks++;
    events += one.events;
    if (one.difference !== null) differences.push(one.difference);
  }
  return { locks, events, differences };
}

function replayOne({ lock, settings, rules, from, entries }: LockSteps): {
  readonly events: number;
  readonly difference: StepDifference | null;
} {
  const policy: LockPolicy = { settings, rules: rules === 'healing' ? HEALING : SOUND };
  let state = from ?? initialState();
  let events = 0;
  let difference: StepDifference | null = null;
  for (let at = 0; at < entries.length; ) {
    const event = entries[at++] as LockEvent;
    const recorded: Effect[] = [];
    while (at < entries.length && isEffect(entries[at])) recorded.push(entries[at++] as Effect);
    const next = step(policy, state, event);
    state = next.state;
    if (difference === null && !isDeepStrictEqual(recorded, next.effects))
      difference = { lock, event: events, recorded, replayed: next.effects };
    events++;
  }
  return { events, difference };
}

function isEffect(entry: LockEvent | Effect | undefined): boolean {
  return entry !== undefined && EFFECTS.includes(entry.type);
}

function read(text: string, number: number): LockSteps {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new InputError(`line ${number}: it is not JSON; each line must be one complete JSON object`);
  }
  const { schema, entries } = Object(value) as Partial<LockSteps>;
  if (schema !== 'lockstep.steps/1')
    throw new InputError(`line ${number}: /schema must be "lockstep.steps/1", but it is ${show(schema)}`);
  if (!Array.isArray(entries))
    throw new InputError(`line ${number}: /entries must be a list, but it is ${show(entries)}`);
  return value as LockSteps;
}
