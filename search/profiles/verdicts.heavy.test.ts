import { describe, expect, test } from 'vitest';
import { ORIGINS } from '../../deviations/index.js';
import { findScenario, loadCatalogue } from '../../scenarios/catalogue.js';
import { CLIENT_DIFFERENCES } from './distinctions.js';
import { fails } from './question.js';
import { expectedVerdict, KNOWN_CLIENTS, playedBy, verdictOf } from './verdicts.js';

const catalogue = loadCatalogue();

describe('what each known client makes of each schedule', () => {
  test.each(CLIENT_DIFFERENCES.map((it) => [it.id, it] as const))('%s', (id, distinction) => {
    const scenario = findScenario(id, catalogue);
    const found = new Map(KNOWN_CLIENTS.map((profile) => [profile, verdictOf(distinction, scenario, profile)]));
    const judged = KNOWN_CLIENTS.filter((profile) => found.get(profile) !== 'n/a');
    const bad = (verdict: (profile: string) => string) => judged.filter((profile) => verdict(profile) === 'bad');
    expect(bad((profile) => found.get(profile) ?? '')).toEqual(bad((profile) => expectedVerdict(distinction, profile)));
    expect(judged.length).toBeGreaterThan(0);
  });
});

test('the reference passes every one of them that a client can pass', () => {
  const failed = CLIENT_DIFFERENCES.filter(
    (it) => it.stated !== 'all' && it.only === undefined && it.question.kind !== 'extends',
  )
    .filter((it) => fails(it.question, playedBy(it, findScenario(it.id, catalogue), 'reference')))
    .map(({ id }) => id);
  expect(failed).toEqual([]);
});

test('the clients that a schedule names are known, and a correction corrects something', () => {
  for (const { id, stated, beyond, spared, only = [] } of CLIENT_DIFFERENCES) {
    const corrected = [...beyond, ...spared].flatMap(([profiles]) => profiles);
    for (const profile of [...(stated === 'all' ? [] : stated), ...corrected, ...only])
      expect(Object.keys(ORIGINS), `${profile} in ${id}`).toContain(profile);
    for (const [profiles] of beyond)
      for (const profile of profiles) expect([id, profile, stated.includes(profile)]).toEqual([id, profile, false]);
    for (const [profiles] of spared)
      for (const profile of profiles) expect([id, profile, stated.includes(profile)]).toEqual([id, profile, true]);
  }
});

test('each schedule tells somebody from somebody, but those that all fail', () => {
  for (const distinction of CLIENT_DIFFERENCES) {
    const verdicts = KNOWN_CLIENTS.map((profile) => expectedVerdict(distinction, profile));
    expect(verdicts).toContain('bad');
    if (distinction.stated !== 'all') expect(verdicts).toContain('ok');
  }
});
