/** A way to draw schedules, as people are told of it. */
export interface StrategyInfo {
  readonly story: string;
  /** No run depends on what came of others, so that a share of all schedules that it draws can be told. */
  readonly independent: boolean;
}

/** All strategies of search, by name. */
export const STRATEGY_NAMES: readonly ['uniform', 'swarm', 'biased', 'structured', 'combination', 'guided'] = [
  'uniform',
  'swarm',
  'biased',
  'structured',
  'combination',
  'guided',
];

/** The name of a strategy of search. */
export type StrategyName = (typeof STRATEGY_NAMES)[number];

/** All strategies. They draw from one weather, up to the same bounds, and differ in how. */
export const STRATEGY_INFO: Readonly<Record<StrategyName, StrategyInfo>> = {
  uniform: { story: 'every kind of trouble in every run, at any time', independent: true },
  swarm: { story: 'a random subset of the kinds of trouble in each run, at any time', independent: true },
  biased: { story: 'every kind of trouble, at instants taken from the state', independent: true },
  structured: { story: 'every kind of trouble, in pieces that belong together', independent: true },
  combination: { story: 'swarm, biased and structured at once', independent: true },
  guided: {
    story: 'the combination, and changes of those of its runs that came nearest to a violation',
    independent: false,
  },
};
