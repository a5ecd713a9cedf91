export { DEVIATIONS, inOrder, parseDeviation, rulesOf } from './catalogue.js';
export {
  type ClientTiming,
  choiceOf,
  deadlineOf,
  type PolicyChoice,
  policyOf,
  policyWithTiming,
  withDeadline,
} from './choice.js';
export { type Habits, type Policy, type PolicyChange, policyPlus, policyWith, REFERENCE } from './policy.js';
export { ORIGINS, type Origin, PROFILES } from './profiles/index.js';
export {
  deviates,
  deviationNumber,
  driftAllowanceUs,
  fencingTokenOf,
  hasFencingTokens,
  lockPolicyOf,
  quorumOf,
  releasesInTurn,
  statedDrift,
  votesWantedOf,
} from './readers.js';
