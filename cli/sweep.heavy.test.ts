import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';

/** Typed by hand from the theory: the greatest error of rate, in %, for an allowance of 1 % + 2 ms, without latency. */
const TOLERATED: Readonly<Record<number, number>> = {
  100: 1.5228,
  1000: 0.6036,
  8000: 0.5151,
  10000: 0.5126,
  30000: 0.5059,
};

interface SweepJson {
  readonly schema: string;
  readonly y: { readonly values: readonly number[] };
  readonly columns: readonly {
    readonly at: number;
    readonly measured: readonly string[];
    readonly boundaries: readonly { readonly below: { readonly at: number } }[];
  }[];
  readonly answer: string;
  readonly agreement: { readonly agree: number; readonly cells: number };
  readonly counterexample: { readonly replay: string };
  readonly deepestSafe: { readonly replay: string };
}

test('ttl against drift reproduces the table of the theory, within a cell and by bisection to a ppm', async () => {
  const { code, stdout } = await lockstep(['sweep', 'ttl=100ms,1s,8s,10s,30s', 'drift', '--json']);
  const { schema, y, columns, agreement } = JSON.parse(stdout) as SweepJson;
  expect([code, schema]).toEqual([0, 'lockstep.sweep/1']);
  expect(agreement.agree).toBe(agreement.cells);
  expect(columns).toHaveLength(5);
  for (const { at, measured, boundaries } of columns) {
    const ppm = 10_000 * (TOLERATED[at / 1000] ?? Number.NaN);
    const safe = y.values[measured.filter((it) => it === 'safe').length - 1] ?? Number.NaN;
    expect(Math.abs(safe - ppm)).toBeLessThan(1_000);
    // At 100 ms a microsecond is worth ten ppm.
    const tolerance = Math.max(1, 1_000_000 / at) + 0.5;
    expect(Math.abs((boundaries[0]?.below.at ?? Number.NaN) - ppm)).toBeLessThanOrEqual(tolerance);
  }
});

test('both runs at the edge replay as printed', async () => {
  const cwd = emptyFolder();
  const { stdout } = await lockstep(['sweep', 'ttl=10s,20s', 'drift', '--json'], { cwd });
  const { counterexample, deepestSafe, answer } = JSON.parse(stdout) as SweepJson;
  expect(answer).toContain('safe with clocks 0.5126 % wrong; with clocks 0.5127 % wrong two clients can hold it');
  for (const [{ replay }, verdict] of [
    [counterexample, 'violated'],
    [deepestSafe, 'safe'],
  ] as const) {
    const ran = await lockstep(replay.split(' ').slice(1), { cwd });
    expect(ran.code).toBe(0);
    expect(ran.stdout).toContain(`reproduced: ${verdict}, as expected`);
  }
});

test('the map keeps to the width of the terminal', async () => {
  for (const columns of [60, 100]) {
    const stdout = { write: () => true, columns };
    const ran = await lockstep(['sweep', 'ttl', 'drift=0..2%/2'], { stdout });
    const widest = Math.max(
      ...ran.stdout
        .split('\n')
        .filter((it) => it.includes('│'))
        .map((it) => it.length),
    );
    expect(widest).toBeLessThanOrEqual(columns);
    expect(widest).toBeGreaterThan(columns - 30);
  }
});

test('a page is written where it is asked for', async () => {
  const cwd = emptyFolder();
  const { stdout } = await lockstep(['sweep', 'nodes=5', 'votes=3..5', 'faulty-voters=0..3', '--report', 'f.html'], {
    cwd,
  });
  expect(stdout).toMatch(/report +f\.html/);
  expect(readFileSync(join(cwd, 'f.html'), 'utf8')).toMatch(/^<!doctype html>[\s\S]*<\/html>\n$/);
});

test('the page marks where its reader is, if that is on the map', async () => {
  const cwd = emptyFolder();
  const argv = ['sweep', 'ttl=1s..30s/3', 'drift=0..1%/3', '--report', 'm.html', '--here'];
  await lockstep([...argv, 'ttl=10s,drift=0.2%'], { cwd });
  expect(readFileSync(join(cwd, 'm.html'), 'utf8')).toContain('>you are here</text>');
  for (const [place, problem] of [
    ['ttl=10s', '--here: "ttl=10s" must have one value for each axis of the map, ttl and drift'],
    ['ttl=10s,drift=2%', '--here: "ttl=10s,drift=2%" is not on the map: its drift is outside of the axis'],
  ] as const) {
    const { code, stderr } = await lockstep([...argv, place], { cwd });
    expect([code, stderr]).toEqual([64, `lockstep: ${problem}\n`]);
  }
});

test('an interruption shows what was measured, and exits with 130', async () => {
  const { code, stdout } = await lockstep(['sweep', 'ttl', 'drift'], { signal: AbortSignal.abort() });
  expect(code).toBe(130);
  expect(stdout).toContain('Interrupted: 0 of ');
  // The column of the answer comes first.
  expect(stdout).toContain('With a TTL of 10 000 ms, the lock is safe with clocks 0.5126 % wrong');
});

describe('wrong parameters', () => {
  it.each([
    [['ttl'], 'a sweep has two axes, not 1; write it like ttl=1s..30s drift=0..2%, others with one value each'],
    [
      ['ttl', 'drift', 'step'],
      'a sweep has two axes, not 3; write it like ttl=1s..30s drift=0..2%, others with one value each',
    ],
    [['ttl', 'drif'], '"drif" is no parameter of a sweep; did you mean "drift"?'],
    [['ttl', 'ttl=1s'], '"ttl" is named twice; name each parameter once'],
    [['ttl=2s..1s', 'drift'], 'ttl: "2s..1s" does not go up; write the lower value first'],
    [
      ['ttl=1500us,1s', 'drift'],
      'ttl: "1500us" is not a whole number of milliseconds from 1 up; write it like 10s or 50ms',
    ],
    [['ttl', 'drift=0..90%'], 'drift: "90%" is more than can be swept; at most 50%'],
    [['nodes=0..5', 'faulty-voters'], 'nodes: "0" is not a whole number from 1 to 31'],
  ])('%j is told in one sentence', async (words, sentence) => {
    const cwd = emptyFolder();
    const ran = await lockstep(['sweep', ...words], { cwd });
    expect(ran).toEqual({ code: 64, stdout: '', stderr: `lockstep: ${sentence}\n` });
    expect(existsSync(join(cwd, '.lockstep'))).toBe(false);
  });
});
