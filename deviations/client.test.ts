import { describe, expect, it } from 'vitest';
import { DEVIATIONS, deviationsOf, fieldsOf, policyOfClient, REFERENCE } from './index.js';

describe('a client, written as settings, deviations and habits', () => {
  it('is a policy with one field for each choice', () => {
    const policy = policyOfClient('somebody', {
      settings: { tries: 3 },
      deviations: ['half-quorum', 'token-per-call', 'deadline-counted-after-us:5'],
      habits: { clock: 'wall', tokenPerProcess: true },
    });
    expect(policy).toEqual({
      ...REFERENCE,
      profile: 'somebody',
      tries: 3,
      quorum: 'half',
      tokenScope: 'instance',
      deadline: 'relative',
      deadlineLagUs: 5,
      clock: 'wall',
    });
  });

  it('turns the sign of its own drift allowance', () => {
    const settings = { driftPpm: 5, driftUs: 7 };
    expect(policyOfClient('a', { settings, deviations: ['drift-added'] })).toMatchObject({ driftPpm: -5, driftUs: -7 });
    expect(fieldsOf(['drift-constant-added'])).toEqual({ driftUs: -2_000 });
  });

  it('is refused where its fields would come to something else', () => {
    expect(() => policyOfClient('a', { deviations: ['settles-with-all'] })).toThrow(
      'a: its fields do not come to release-awaits-all as named',
    );
    expect(() => policyOfClient('a', { deviations: ['half', 'quorum:2'] })).toThrow('there is no deviation half');
  });
});

describe('each deviation', () => {
  // Those that follow from how nodes are asked or stamps are cut.
  const DERIVED: Record<string, string[]> = {
    'release-awaits-all': ['settles-with-all'],
    'awaits-whole-clean-up': ['settles-with-all'],
    'loss-noticed-at-failure': ['no-alarm'],
    'grants-count': ['fence-max'],
  };

  it.each(Object.entries(DEVIATIONS))('%s is what its fields come to', (name, { numbered }) => {
    const reference = numbered ? `${name}:7` : name;
    const fields = fieldsOf([...(DERIVED[name] ?? []), reference]);
    expect(deviationsOf({ ...REFERENCE, ...fields })).toContain(reference);
  });
});
