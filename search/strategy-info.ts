import { COMBINED, type Tactics, UNIFORM } from './tactics.js';

/** A way to draw schedules. */
interface StrategyInfo {
  /** As people are told of it. */
  readonly story: string;
  readonly tactics: Tactics;
}

/** All strategies of search, by name. */
export const STRATEGY_NAMES: readonly ['uniform', 'swarm', 'biased', 'structured', 'combination'] = [
  'uniform',
  'swarm',
  'biased',
  'structured',
  'combination',
];

/** The name of a strategy of search. */
export type StrategyName = (typeof STRATEGY_NAMES)[number];

/** All strategies. They draw from one fault model, up to the same bounds, and differ in how. No run depends on another. */
export const STRATEGY_INFO: Readonly<Record<StrategyName, StrategyInfo>> = {
  uniform: { story: 'every kind of fault in every run, at any time', tactics: UNIFORM },
  swarm: {
    story: 'a random subset of the kinds of faults in each run, at any time',
    tactics: { ...UNIFORM, swarm: true },
  },
  biased: { story: 'every kind of fault, at instants chosen by the state', tactics: { ...UNIFORM, biased: true } },
  structured: {
    story: 'every kind of fault, in correlated groups',
    tactics: { ...UNIFORM, structured: true },
  },
  combination: { story: 'swarm, biased and structured combined', tactics: COMBINED },
};
