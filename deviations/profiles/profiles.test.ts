import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseDeviation, REFERENCE } from '../index.js';
import { ORIGINS, PROFILES } from './index.js';

describe('the profiles', () => {
  it('are the reference and as many known clients as the README says, each with its sources', () => {
    expect(PROFILES.reference).toBe(REFERENCE);
    const known = Object.keys(PROFILES).filter((id) => id !== 'reference');
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
    expect(readme).toContain(`${known.length} known Redlock clients`);
    expect(known.sort()).toEqual(Object.keys(ORIGINS).sort());
    for (const [id, policy] of Object.entries(PROFILES)) expect(policy.profile).toBe(id);
  });

  it('cannot be changed by accident', () => {
    expect(Object.isFrozen(PROFILES)).toBe(true);
    for (const policy of Object.values(PROFILES)) expect(Object.isFrozen(policy)).toBe(true);
  });

  it('have every field of a policy and no other, and sources that can be looked up', () => {
    for (const policy of Object.values(PROFILES))
      expect(Object.keys(policy).sort()).toEqual(Object.keys(REFERENCE).sort());
    for (const { sources } of Object.values(ORIGINS)) {
      expect(sources.length).toBeGreaterThan(0);
      for (const { repository, commit, paths } of sources) {
        expect(paths.length).toBeGreaterThan(0);
        if (repository === 'npm') expect(commit).toMatch(/^@?[\w./-]+@\d/);
        else
          expect([repository, commit]).toEqual([
            expect.stringMatching(/^[\w.-]+\/[\w.-]+$/),
            expect.stringMatching(/^[0-9a-f]{40}$/),
          ]);
      }
    }
  });

  it('keep the default where the sources say nothing', () => {
    const defaults = new Map<string, unknown>(Object.entries(REFERENCE.settings));
    for (const [id, { unknown }] of Object.entries(ORIGINS)) {
      const { settings, deviations } = PROFILES[id] ?? REFERENCE;
      const chosen = new Map<string, unknown>(Object.entries(settings));
      for (const name of unknown) {
        if (defaults.has(name)) expect([id, name, chosen.get(name)]).toEqual([id, name, defaults.get(name)]);
        else
          expect([id, parseDeviation(name).name, deviations]).not.toEqual([id, name, expect.arrayContaining([name])]);
      }
    }
  });

  it('differ from the reference, and most of them from each other', () => {
    const texts = Object.values(PROFILES).map(({ profile: _, ...policy }) => JSON.stringify(policy));
    // sesamecare-redlock is a fork of node-redlock's main that changed nothing here.
    expect(new Set(texts).size).toBe(texts.length - 1);
  });
});
