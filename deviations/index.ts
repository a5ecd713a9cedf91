export { DEVIATIONS, parseDeviation, rulesOf } from './catalogue.js';
export { type Client, fieldsOf, policyOfClient } from './client.js';
export type { Deviation } from './deviation.js';
export {
  deviates,
  deviationsOf,
  driftAllowanceUs,
  fencingTokenOf,
  hasFencingTokens,
  lockPolicyOf,
  quorumOf,
  releasesInTurn,
  settingsOf,
  votesWantedOf,
} from './fields.js';
export { type Habits, type Policy, REFERENCE } from './policy.js';
export { ORIGINS, type Origin, PROFILES, type Source } from './profiles/index.js';
