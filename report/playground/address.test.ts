import { deflateRawSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { InputError } from '../../scenarios/input-error.js';
import { parseSchedule } from '../../scenarios/parse-schedule.js';
import { CATALOGUE } from '../testing/scenes.js';
import { type Address, addressOf, fragmentOf } from './address.js';
import { scenariosOf, scheduleOf, storedCatalogue } from './catalogue.js';
import { brief, expanded, packed, unpacked } from './pack.js';

/** What an address with a schedule may have, characters. */
const MOST = 2_000;

describe('a schedule in an address', () => {
  it('comes out as it went in, and is short, for every scenario', async () => {
    const longest = { id: '', length: 0 };
    for (const { id, schedule } of CATALOGUE) {
      const text = await packed(schedule);
      expect(text).toMatch(/^[\w-]+$/);
      expect({ id, schedule: await unpacked(text) }).toEqual({ id, schedule: parseSchedule(schedule) });
      if (text.length > longest.length) Object.assign(longest, { id, length: text.length });
    }
    expect(longest.length).toBeLessThan(MOST);
  });

  it('is refused in one sentence where it is none', async () => {
    for (const text of ['', 'AAAA', '%%%', 'x'.repeat(300_000)]) {
      await expect(unpacked(text)).rejects.toThrow(InputError);
      await expect(unpacked(text)).rejects.toThrow('copy all of it');
    }
  });

  it('is refused where a letter is missing or another one', async () => {
    const text = await packed(CATALOGUE[0]?.schedule ?? expect.fail());
    await expect(unpacked(text.slice(0, -9))).rejects.toThrow(InputError);
    await expect(unpacked(`${text.slice(0, 20)}__${text.slice(22)}`)).rejects.toThrow(InputError);
  });

  it('is refused by the parser where its fields are wrong, and pollutes nothing', async () => {
    const hostile = '{"cluster":{"nodes":5,"__proto__":{"polluted":1}},"clients":[{"id":"<img src=x>"}],"untilUs":1}';
    const text = deflateRawSync(hostile).toString('base64url');
    await expect(unpacked(text)).rejects.toThrow(InputError);
    await expect(unpacked(text)).rejects.toThrow(/^\S+: /);
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
    expect(expanded(null)).toBeNull();
    expect(expanded({ cluster: 7, clients: [3] })).toMatchObject({ cluster: 7, clients: [3] });
  });

  it('leaves out what is as usual', () => {
    const plain = CATALOGUE.find(({ id }) => id === 'S03')?.schedule ?? expect.fail();
    expect(brief(plain)).not.toHaveProperty('policy');
    expect(JSON.stringify(brief(plain)).length).toBeLessThan(JSON.stringify(plain).length / 2);
  });
});

it('the catalogue of the page has every schedule as it is', () => {
  const stored = scenariosOf(JSON.parse(JSON.stringify(storedCatalogue(CATALOGUE))));
  expect(stored.map(scheduleOf)).toEqual(CATALOGUE.map(({ schedule }) => schedule));
  for (const [i, { story }] of stored.entries()) {
    const whole = CATALOGUE[i]?.story ?? expect.fail();
    expect(whole.startsWith(story.replace(/ …$/, ''))).toBe(true);
    expect(story.length).toBeLessThan(420);
  }
  expect(stored.filter(({ story }) => story.endsWith('…')).length).toBeLessThan(20);
});

describe('an address', () => {
  const whole: Address = {
    tab: 'map',
    scenario: 'S03',
    run: 'q1w2-_',
    also: ['quorum-backed', 'cleanup'],
    with: ['persistence=always', 'drift-allowance=2%'],
    event: 7,
    panel: 'step',
    search: { nodes: '3', faults: 'crash=1,loss=2%' },
    map: ['ttl=1s..30s', 'drift'],
    stop: 2,
  };

  it('leads back to where it was made', () => {
    expect(addressOf(fragmentOf(whole))).toEqual(whole);
    expect(fragmentOf(addressOf(''))).toBe('#search');
    expect(addressOf('#tour&stop=3')).toMatchObject({ tab: 'tour', stop: 3 });
  });

  it('may be nothing but a scenario', () => {
    for (const text of ['#S03', 'S03', '#scenario=S03'])
      expect(addressOf(text)).toMatchObject({ tab: 'scenarios', scenario: 'S03' });
  });

  it('is as at the start where it makes no sense', () => {
    expect(addressOf('#tab=evil&event=-3&panel=x&stop=1e9&nodes=&also=evil')).toEqual({
      ...addressOf(''),
      search: { nodes: '' },
    });
    expect(addressOf(`#scenario=${'x'.repeat(999)}`).scenario).toHaveLength(200);
  });
});
