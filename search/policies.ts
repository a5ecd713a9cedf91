import type { Settings } from '../core/index.js';
import { type Policy, policyWith } from '../deviations/index.js';

/** What runs of one search have each for themselves. */
type Varied = Partial<Pick<Settings, 'tries' | 'votesWanted'>>;

const known = new WeakMap<Policy, Map<string, Policy>>();

/**
 * A policy with these settings. One object for all that ask for the same: what a policy comes to is looked up by the object, and
 * every run of a search asks.
 */
export function policyVaried(policy: Policy, settings: Varied): Policy {
  let varied = known.get(policy);
  if (varied === undefined) {
    varied = new Map();
    known.set(policy, varied);
  }
  const words = `${settings.tries} ${settings.votesWanted}`;
  let own = varied.get(words);
  if (own === undefined) {
    own = policyWith({ settings }, policy);
    varied.set(words, own);
  }
  return own;
}
