import { describe, expect, it } from 'vitest';
import { SOUND, SOUND_POLICY } from '../core/index.js';
import { DEVIATIONS, lockPolicyOf, PROFILES, policyWith, REFERENCE, rulesOf } from './index.js';

describe('the catalogue of deviations', () => {
  it('changes one rule each, and says in words what a client does', () => {
    for (const [name, { rule, says, range }] of Object.entries(DEVIATIONS)) {
      const rules = rulesOf([range !== null ? `${name}:7` : name]);
      const changed = Object.keys(SOUND).filter(
        (it) => rules[it as keyof typeof SOUND] !== SOUND[it as keyof typeof SOUND],
      );
      expect([name, changed]).toEqual([name, [rule]]);
      expect(says.length).toBeGreaterThan(20);
    }
  });

  it('makes the sound rules of no deviation', () => {
    expect(rulesOf([])).toEqual(SOUND);
    expect(lockPolicyOf(REFERENCE)).toEqual(SOUND_POLICY);
  });

  it('is a set: the order in which deviations are written does not matter', () => {
    const list = ['extension-votes:-1', 'half-quorum'];
    for (const names of [list, list.toReversed()]) {
      const { quorum } = rulesOf(names);
      expect([quorum(4, 'acquire'), quorum(4, 'extend')]).toEqual([2, 1]);
      expect(policyWith({ deviations: names }).deviations).toEqual(list.toReversed());
    }
  });

  it.each([
    [['half-quorum', 'float-majority'], 'float-majority would undo half-quorum: both are about quorum'],
    [['half-quorum', 'quorum:2'], 'quorum would undo half-quorum: both are about quorum'],
    [['half-quorum', 'half-quorum'], 'half-quorum would undo half-quorum: both are about quorum'],
    [['sets-any', 'own-key-grants'], 'own-key-grants would undo sets-any: both are about scripts.acquire'],
    [['extends-missing', 'extends-any'], 'extends-any would undo extends-missing: both are about scripts.extend'],
    [['deletes-any', 'gets-then-deletes'], 'gets-then-deletes would undo deletes-any: both are about scripts.release'],
    [['toString'], 'there is no deviation toString'],
    [['quorum'], 'quorum: write quorum:<whole number from 1 to 31>'],
    [['quorum:x'], 'quorum:x: write quorum:<whole number from 1 to 31>'],
    [['quorum:32'], 'quorum:32: write quorum:<whole number from 1 to 31>'],
    [['stamps-us:0'], 'stamps-us:0: write stamps-us:<whole number from 1 to 1000000>'],
    [['quorum:1:2'], 'quorum:1:2: write quorum:<whole number from 1 to 31>'],
    [['sets-nothing:3'], 'there is no deviation sets-nothing'],
    [['half-quorum:3'], 'half-quorum:3: write half-quorum without a number'],
  ])('refuses %j', (names, message) => {
    expect(() => rulesOf(names)).toThrow(new RangeError(message));
  });

  it('has a set of them for each known client', () => {
    for (const policy of Object.values(PROFILES)) expect(() => lockPolicyOf(policy)).not.toThrow();
    const counts = Object.values(PROFILES).map((policy) => policy.deviations.length);
    expect([Math.min(...counts), counts.filter((count) => count > 3).length]).toEqual([0, counts.length - 1]);
  });
});
