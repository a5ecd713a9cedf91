export { votesWanted } from './acquire.js';
export type { Answer, Command, Operation, Scripts, Token } from './commands.js';
export { COUNTER_KEYS, MOST_COUNTER, RECOVER_COUNTER } from './commands.js';
export { chanceFor, drive, type Environment } from './drive.js';
export type {
  AttemptRandomness,
  Effect,
  LockEvent,
  Outcome,
  Timer,
  Votes,
} from './event.js';
export { COUNTER_HEADROOM, isFencing } from './fencing.js';
export { compareFencingTokens, type FencingToken } from './fencing-token.js';
export {
  allNodes,
  has,
  MOST_NODES,
  members,
  NO_NODES,
  type NodeSet,
  oneNode,
  size,
  union,
  without,
} from './nodes.js';
export {
  type AfterFailure,
  type Electorate,
  type FencingRules,
  HEALING,
  type ReleaseCause,
  type Round,
  type Rules,
  SOUND,
  toleratedDataLoss,
  type Won,
} from './rules.js';
export { type CounterScript, type NodeScripts, scriptsOf } from './scripts.js';
export {
  DEFAULT_SETTINGS,
  type Drift,
  exactAllowance,
  extendsItself,
  MIDDLE_JITTER_PPM,
  type Settings,
} from './settings.js';
export {
  type Counters,
  copyState,
  type DraftState,
  initialState,
  type LockState,
  type Phase,
  resetState,
} from './state.js';
export { type Step, step } from './step.js';
export { answered, type Tally, votesOf } from './tally.js';
export { LONGEST_US, type LocalTime, later, localTime } from './time.js';
export { type LockPolicy, SOUND_POLICY } from './turn.js';
