import { applyPatch, type Operation } from 'rfc6902';
import { describe, expect, it } from 'vitest';
import { PROFILES, policyOf, REFERENCE } from '../deviations/index.js';
import everyField from './fixtures/every-field.json' with { type: 'json' };
import formOne from './fixtures/form-1.json' with { type: 'json' };
import { parseScenario } from './parse.js';
import { parseSchedule } from './parse-schedule.js';
import { variantSchedule } from './variant.js';

/** The example of form 1, with a change. */
function changed(op: Operation['op'], path: string, value?: unknown): unknown {
  const scenario: unknown = structuredClone(formOne);
  applyPatch(scenario, [{ op, path, value } as Operation]);
  return scenario;
}

/** What the policy of a schedule of form 1 comes to. */
function policyIn(profile: string, fields: object): ReturnType<typeof policyOf> {
  return policyOf(parseSchedule({ ...formOne.schedule, policy: { profile, with: fields }, resource: 'none' }).policy);
}

describe('a schedule of form 1', () => {
  it('is read as one of today, with every field', () => {
    const { schedule, ...rest } = parseScenario(formOne);
    expect(rest).toEqual({ ...everyField, schedule: undefined });
    expect(schedule).toEqual({ ...everyField.schedule, policy: schedule.policy });
    expect(policyOf(schedule.policy)).toEqual(policyOf(parseScenario(everyField).schedule.policy));
  });

  it.each(Object.keys(PROFILES))('has the profile %s as it is', (profile) => {
    expect(policyIn(profile, {})).toEqual(PROFILES[profile]);
    expect(parseSchedule({ ...formOne.schedule, policy: { profile, with: {} }, resource: 'none' }).policy).toEqual({
      profile,
    });
  });

  it('has fields in place of what the profile deviates in', () => {
    const { deviations } = policyIn('redlock-php', { quorum: 'majority' });
    expect(deviations).toEqual(PROFILES['redlock-php']?.deviations.filter((it) => it !== 'float-majority'));
    expect(policyIn('redlock-php', { settle: 'early', releaseSending: 'parallel' }).deviations).not.toContain(
      'release-awaits-all',
    );
    expect(policyIn('reference', { settle: 'all', cleanupAwaited: true }).deviations).toEqual([
      'settles-with-all',
      'release-awaits-all',
      'awaits-whole-clean-up',
    ]);
  });

  it.each([
    [{ driftPpm: -5, driftUs: -7 }, { driftPpm: 5, driftUs: 7 }, ['drift-added']],
    [{ driftUs: -7 }, { driftUs: 7 }, ['drift-constant-added']],
    [{ fencing: 'quorum' }, { fencing: true }, []],
    [{ fencing: 'plain-write' }, { fencing: true }, ['counter-plainly-written']],
    [{ fencing: 'sum' }, { fencing: false }, ['fence-sum', 'grants-count']],
    [{ stampUs: 1_000 }, {}, ['stamps-us:1000', 'deadline-stamps-us:1000']],
    [{ deadlineLagUs: 5 }, {}, []],
    [{ deadline: 'relative', deadlineLagUs: 5 }, {}, ['deadline-counted-after-us:5']],
    [{ extendStartsInTime: true }, {}, []],
    [{ ownKeyRenews: true }, {}, []],
    [{ releaseChecksToken: false, releaseSteps: 'get-then-del' }, {}, ['gets-then-deletes']],
  ])('has %j', (fields, settings, deviations) => {
    expect(policyIn('reference', fields)).toEqual({
      ...REFERENCE,
      settings: { ...REFERENCE.settings, ...settings },
      deviations,
    });
  });

  it('says what is wrong where it is', () => {
    const said = (path: string, value: unknown, op: Operation['op'] = 'replace') => {
      try {
        parseScenario(changed(op, path, value));
        return 'accepted';
      } catch (error) {
        return String(error instanceof Error ? error.message : error);
      }
    };
    expect([
      said('/schedule/policy/with/drift', 1, 'add'),
      said('/schedule/policy/with/quorum', 'most'),
      said('/schedule/policy/with/settle', 'eary'),
      said('/schedule/policy/with/tokenPerProcess', true, 'add'),
      said('/schedule/policy/profile', 'referense'),
      said('/schedule/policy', {}),
      said('/schedule/policy', undefined, 'remove'),
      said('/schedule/clients/0/timing/deadline', 'never'),
      said('/schedule/clients', { c1: [] }),
      said('/neighbours/0/change', [{ op: 'replace', path: '/policy/with/tires', value: 3 }]),
      said('/neighbours/0/change', [{ op: 'add', path: '/policy/with/tries', value: -3 }]),
    ]).toMatchInlineSnapshot(`
      [
        "/schedule/policy/with/drift: not a field of a policy; did you mean "driftPpm"?",
        "/schedule/policy/with/quorum: "most" is not "majority", "half", "float-majority" or a whole number from 1 to 31",
        "/schedule/policy/with/settle: "eary" is unknown; did you mean "early"?",
        "/schedule/policy/with/tokenPerProcess: not a field of a policy; the fields are votesWanted, nodeTimeoutUs, driftPpm, driftUs, minValidityUs, tries, acquireTimeoutUs, retryDelayUs, retryJitterUs, releaseTries, maxExtensions, autoExtendAtUs, …",
        "/schedule/policy/profile: "referense" is not a profile; did you mean "reference"?",
        "/schedule/policy/profile: missing; it must be the name of a profile",
        "/schedule/policy: missing; it must be a policy (an object)",
        "/schedule/clients/0/timing/deadline: "never" is not "absolute", "relative" or "whole-ttl"",
        "/schedule/clients: an object is not a list of clients",
        "/neighbours/0/change: cannot be made: Value required at path: /policy/with/tires",
        "/neighbours/0/change/with/tries: -3 is not a whole number from 1 up, or null to try for ever",
      ]
    `);
  });
});

describe('a variant of a scenario of form 1', () => {
  const neighbour = (change: readonly object[], mitigation?: string) => {
    const variant = { title: 'other', change, expect: { verdict: 'safe' } };
    const scenario = parseScenario(
      changed('replace', '/neighbours', [mitigation === undefined ? variant : { ...variant, with: mitigation }]),
    );
    const [only] = scenario.neighbours;
    if (only === undefined) throw new Error('the scenario has lost its variant');
    return variantSchedule(scenario, only);
  };
  const own = policyOf(parseScenario(formOne).schedule.policy);

  it('changes fields of its policy', () => {
    const { policy } = neighbour([
      { op: 'remove', path: '/policy/with/quorum' },
      { op: 'replace', path: '/policy/with/tries', value: 9 },
      { op: 'replace', path: '/untilUs', value: 5 },
    ]);
    expect(policyOf(policy)).toEqual({
      ...own,
      settings: { ...own.settings, tries: 9 },
      deviations: own.deviations.filter((it) => it !== 'quorum:3'),
    });
    expect(neighbour([{ op: 'replace', path: '/untilUs', value: 5 }]).policy).toEqual(
      parseScenario(formOne).schedule.policy,
    );
  });

  it('changes them with a mitigation in place', () => {
    const { settings } = policyOf(
      neighbour([{ op: 'replace', path: '/policy/with/tries', value: 9 }], 'votes-wanted=4').policy,
    );
    expect([settings.tries, settings.votesWanted]).toEqual([9, 4]);
  });

  it('changes what a client has for itself', () => {
    const timing = { clock: 'boot', deadline: 'relative', deadlineLagUs: 106_000 };
    const { clients } = neighbour([{ op: 'replace', path: '/clients/0/timing', value: timing }]);
    expect(clients[0]?.timing).toEqual({ clock: 'boot', deadline: 'deadline-counted-after-us:106000' });
    const added = neighbour([{ op: 'add', path: '/clients/-', value: { id: 'c9', locks: [], timing } }]);
    expect(added.clients.at(-1)?.timing).toEqual(clients[0]?.timing);
    expect(() => neighbour([{ op: 'replace', path: '/clients/0/timing/deadline', value: 'relative' }])).toThrow(
      'replace the timing as a whole',
    );
  });
});
