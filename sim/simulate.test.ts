import { describe, expect, it } from 'vitest';
import { choiceOf, policyOf, policyWith, REFERENCE } from '../deviations/index.js';

describe('a policy in a schedule', () => {
  it('is a profile with what differs from it', () => {
    expect(policyOf({ profile: 'reference' })).toEqual(REFERENCE);
    const policy = policyOf({ profile: 'reference', settings: { tries: null, retryJitterUs: 0 } });
    expect(policy).toEqual(policyWith({ settings: { tries: null, retryJitterUs: 0 } }));
    expect(choiceOf(policy)).toEqual({ profile: 'reference', settings: { tries: null, retryJitterUs: 0 } });
  });

  it('must have a profile that there is', () => {
    expect(() => policyOf({ profile: 'redlick' })).toThrow('"redlick" is not a known profile');
  });
});
