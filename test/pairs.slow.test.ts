import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { PairsReport } from '../cli/pairs-text.js';
import { MATRIX } from '../libraries/adapters/index.js';
import { arranged } from '../libraries/mix.js';
import { eventsOf, isOfMix } from '../libraries/search/pairs.js';
import { loadLibrary } from '../libraries/test-library.js';

const report: PairsReport = JSON.parse(readFileSync(new URL('pairs.json', import.meta.url), 'utf8'));
const unsafe = report.pairs.filter(({ verdict }) => verdict === 'unsafe');

it('has every ordered pair of libraries', () => {
  const ids = MATRIX.map(({ id }) => id);
  const pairs = new Set(report.pairs.map(({ old, joining }) => `${old},${joining}`));
  expect([...pairs].sort()).toEqual(ids.flatMap((old) => ids.map((joining) => `${old},${joining}`)).sort());
});

describe.each(MATRIX)('pairs with $id as the old one (npm run -s docs:pairs)', ({ id }) => {
  const its = unsafe.filter(({ old }) => old === id);

  it.each(its)('$old, joined by $joining, $nodes nodes, same key $sameKey: $schedule', async (pair) => {
    const mix = await loadLibrary({ id: `${pair.old},${pair.joining}`, sameKey: pair.sameKey });
    const common = report.schedules[pair.schedule ?? ''] ?? expect.fail(`no schedule ${pair.schedule}`);
    const schedule = arranged(common, mix);
    expect(await isOfMix(mix, schedule)).toBe(true);
    expect(eventsOf(schedule)).toBe(pair.events);
    expect(pair.events).toBeLessThanOrEqual(15);
  });
});

it('blames the pair only where keys or nodes differ, or one of the two has a finding', () => {
  const findings = readFileSync(new URL('../docs/findings/README.md', import.meta.url), 'utf8');
  const isKnown = (id: string): boolean => {
    const library = MATRIX.find((it) => it.id === id);
    return library !== undefined && new RegExp(`\\| [^|]*${library.package}[ ,]`).test(findings);
  };
  const isPlain = ({ old, joining, nodes, sameKey }: (typeof unsafe)[number]): boolean => {
    const [one, other] = [old, joining].map((id) => MATRIX.find((it) => it.id === id));
    const differ = one?.keyOf?.('a') !== other?.keyOf?.('a') && !sameKey;
    return !differ && !(nodes > 1 && one?.nodes !== other?.nodes);
  };
  const others = unsafe.filter(isPlain).filter(({ old, joining }) => !isKnown(old) && !isKnown(joining));
  expect(others.map(({ old, joining }) => `${old},${joining}`)).toEqual([]);
});
