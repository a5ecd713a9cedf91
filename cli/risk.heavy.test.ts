import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

const SYSTEM = {
  name: 'orders',
  nodes: { count: 3, persistence: 'none', restart: '100ms', supervisor: 'systemd' },
  clocks: { drift: '0' },
  network: { least: '100us', most: '1ms' },
  client: { library: 'reference', ttl: '10s' },
  rates: {
    locks: { perDay: 1000, last: '2s' },
    pauses: { perMonth: 1, for: '1s..60s' },
  } as Record<string, unknown>,
};

/** Writes a description, with `rates` in place of its own, and calls `risk` with it. */
async function risk(rates: unknown, ...flags: string[]) {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'system.json'), JSON.stringify({ ...SYSTEM, rates }));
  const called = await lockstep(['risk', 'system.json', '--workers', '1', '--runs', '200', ...flags], { cwd });
  return { ...called, cwd };
}

describe('risk', () => {
  it('says what it assumes before it says a figure, and then by cause, with a run that replays', async () => {
    const { stdout, code, cwd } = await risk(SYSTEM.rates, '--no-changes');
    const places = ['Assumptions', 'Violations to be expected a year', 'By cause', 'Method'].map((it) =>
      stdout.indexOf(it),
    );
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places[0]).toBeGreaterThan(0);
    expect(stdout).toContain('12 a year for a client, for 1 s to 1 min');
    expect(code).toBe(0);
    const replayed = await lockstep(['replay', '.lockstep/risk/pause.json'], { cwd });
    expect([replayed.code, replayed.stdout.includes('reproduced')]).toEqual([0, true]);
  });

  it('writes a page on which the assumptions come first, with the command that makes it again', async () => {
    const { cwd, stdout } = await risk(SYSTEM.rates, '--ttl', '9s', '--report', 'risk.html');
    expect(stdout).toContain('report  risk.html');
    const page = readFileSync(join(cwd, 'risk.html'), 'utf8');
    const heads = ['Assumptions', 'Violations a year', 'By cause', 'With one change each', 'Method and self-checks'];
    const places = heads.map((it) => page.indexOf(`<h2>${it}</h2>`));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places[0]).toBeGreaterThan(0);
    expect(page).toContain('lockstep risk system.json --ttl 9000ms --runs 200');
  });

  it('names changes as the options of the client in use, and only such as it has', async () => {
    const own = await risk(SYSTEM.rates, '--json');
    const other = await risk(SYSTEM.rates, '--profile', 'redsync-4', '--json');
    const linesOf = ({ stdout }: { stdout: string }): string => JSON.stringify(JSON.parse(stdout).estimates[0].changes);
    for (const { stdout } of [own, other]) expectToFit(JSON.parse(stdout));
    expect(linesOf(own)).toContain('lock.remaining()');
    expect(linesOf(other)).toContain('mutex.Until()');
    expect(linesOf(other)).not.toContain('lock.remaining()');
  });

  it('estimates both ends of a published range, and says whose it is', async () => {
    const { stdout } = await risk({ ...SYSTEM.rates, crashes: 'typical' }, '--no-changes');
    expect(stdout).toContain('low end of what is published');
    expect(stdout).toContain('high end of what is published');
    expect(stdout).toContain('Jeff Dean');
    const typical = await lockstep(['risk', '--typical', '--json'], { cwd: emptyFolder() });
    expectToFit(JSON.parse(typical.stdout));
  });

  it('exits with 1 where more is possible than it is told to allow', async () => {
    expect((await risk(SYSTEM.rates, '--no-changes', '--at-most', '1e-9')).code).toBe(1);
    expect((await risk(SYSTEM.rates, '--no-changes', '--at-most', '1e9')).code).toBe(0);
  });

  it.each([
    [undefined, '/rates: missing; a risk needs to know'],
    [{ locks: {} }, 'say how many locks there are'],
    [{ locks: { perDay: -1 } }, '-1 is not a number from 0 up'],
    [{ locks: { perDay: 1, last: [{ share: '50%', for: '1s' }] } }, 'add up to 50 %'],
    [{ locks: { perDay: 1 }, crashes: { perMonth: 1 } }, '"for" is missing'],
    [{ locks: { perDay: 1 }, crashes: { perWeek: 1, for: '1s' } }, '"perWeek" is not one of'],
    [{ locks: { perDay: 1 }, pauses: { perDay: 1, for: '2s..1s' } }, 'does not go up'],
    [{ locks: { perDay: 1 }, clockSteps: 'typical' }, 'no range is published'],
    [{ locks: { perDay: 1 }, failovers: { perYear: 1, for: '1s' } }, 'not every node has a replica'],
    [{ locks: { perDay: 1 }, crashs: { perYear: 1, for: '1s' } }, 'crashs'],
  ])('refuses %j in one sentence', async (rates, sentence) => {
    const { stderr, code } = await risk(rates);
    expect(stderr).toContain(sentence);
    expect([code, stderr.trim().split('\n').length]).toEqual([64, 1]);
  });

  it('refuses a file that is none', async () => {
    const cwd = emptyFolder();
    for (const argv of [
      ['risk'],
      ['risk', 'nowhere.json'],
      ['risk', 'system.txt'],
      ['risk', 'x.json', '--at-most', 'few'],
    ]) {
      const { code, stderr } = await lockstep(argv, { cwd });
      expect([code, stderr.trim().split('\n').length]).toEqual([64, 1]);
    }
  });
});
