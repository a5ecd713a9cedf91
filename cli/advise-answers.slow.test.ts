import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { emptyFolder, lockstep } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

const U1 = {
  name: 'U1',
  nodes: { count: 3, persistence: 'everysec', restart: '1s', supervisor: 'systemd' },
  clocks: { steps: '100ms' },
  pauses: { process: '500ms' },
  client: { library: 'redsync-4', ttl: '8s' },
  work: { longest: '3s' },
};

/** The same with what is advised for it. */
const MENDED = {
  ...U1,
  nodes: { ...U1.nodes, restart: '8s' },
  client: { ...U1.client, drift: '1.4%', ownTokens: true },
};

function folderWith(system: object): string {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, 'system.json'), JSON.stringify(system));
  return cwd;
}

describe('lockstep advise', () => {
  it('says what to change, in lines to paste, and writes runs that show it', async () => {
    const cwd = folderWith(U1);
    const { code, stdout } = await lockstep(['advise', 'system.json', '--runs', '200'], { cwd });
    expect(code).toBe(0);
    // What is to be done, what is assumed by default, and with which figures: in 115 lines.
    expect(stdout.split('\nAlso assumed')[0]?.split('\n').length).toBeLessThan(115);
    expect(stdout.replace(/(?<=Searched ).*/, '…')).toMatchSnapshot();
    expect(stdout).not.toContain('In place of');
    for (const side of ['safe', 'violated']) {
      for (const of of ['allowance', 'restart-delay', 'guard', 'ttl']) {
        const { code: replayed, stdout: told } = await lockstep(
          ['replay', `.lockstep/advise/${of}-${side}.json`, '--json'],
          { cwd },
        );
        expect({ replayed, ...JSON.parse(told) }).toMatchObject({ replayed: 0, reproduced: true });
        expect(JSON.parse(told).verdict).toBe(side === 'safe' ? 'safe' : 'violated');
      }
    }
  });

  it('shows with each violation nothing that the description does not have', async () => {
    const cwd = folderWith(U1);
    await lockstep(['advise', 'system.json', '--runs', '0'], { cwd });
    for (const of of ['guard', 'ttl']) {
      const { schedule } = JSON.parse(readFileSync(join(cwd, `.lockstep/advise/${of}-violated.json`), 'utf8'));
      expect(schedule.faults).toMatchObject([{ kind: 'pause', process: 'c1', forUs: 500_000 }]);
      expect(schedule.clients[0].locks[0].writes).toMatchObject([{ delayUs: 10_000 }]);
      expect(schedule.cluster.delayUs).toBe(10_000);
      // A minority does not answer.
      expect(schedule.fates).toMatchObject(of === 'ttl' ? [{ lost: true, node: 'n0' }] : [{ lost: true }]);
    }
    for (const of of ['allowance', 'restart-delay']) {
      const { schedule } = JSON.parse(readFileSync(join(cwd, `.lockstep/advise/${of}-violated.json`), 'utf8'));
      for (const { kind, ratePpm = 500, byUs = 100_000 } of schedule.faults)
        expect({ kind, ratePpm, byUs }).toMatchObject({ ratePpm: 500, byUs: 100_000 });
      expect(schedule.fates).toEqual([]);
    }
  });

  it('prints the lines of what would do instead when it is asked for them, and what is not to be then', async () => {
    const { stdout } = await lockstep(['advise', 'system.json', '--runs', '0', '--alternatives'], {
      cwd: folderWith(U1),
    });
    const [, ...others] = stdout.split('\nIn place of ');
    expect(others).toHaveLength(2);
    expect(others[0]).toContain('\nmakestep 0.1 1\n');
    expect(others[0]).toContain('# before a step on a running machine');
    expect(others[0]).not.toContain('# and no lines for');
    expect(others[1]).toContain('\nappendonly yes\nappendfsync always\n');
    expect(others[1]).toMatch(/# and no lines for: \/etc\/systemd\/.*hold-back\.conf/);
  });

  it('has a published form of its JSON, and finds what it advises to be safe', async () => {
    const before = await lockstep(['advise', 'system.json', '--runs', '50', '--json'], { cwd: folderWith(U1) });
    expectToFit(JSON.parse(before.stdout));
    const after = await lockstep(['advise', 'system.json', '--runs', '200', '--json', '--check'], {
      cwd: folderWith(MENDED),
    });
    expect(after.code).toBe(0);
    const advice = JSON.parse(after.stdout);
    expectToFit(advice);
    expect(advice).toMatchObject({ verdict: 'safe', hazards: [], changes: [] });
  });

  it('ends --check with 1 where the system is not safe as it is, and says what known failures do in it', async () => {
    const cwd = folderWith(U1);
    const check = ['advise', 'system.json', '--runs', '50', '--check'];
    expect((await lockstep(check, { cwd })).code).toBe(1);
    // What was found with the old settings is known: it passes with the new ones.
    const { writeWhole } = await import('./write-file.js');
    const known = ['clocks', 'memory', 'client'];
    for (const it of known)
      writeWhole(`lockstep/regressions/${it}.json`, readFileSync(join(cwd, `.lockstep/advise/${it}-now.json`)), cwd);
    const still = await lockstep(check, { cwd });
    for (const it of known)
      expect(still.stdout).toContain(`✗ still fails with your settings   lockstep/regressions/${it}.json`);
    writeFileSync(join(cwd, 'system.json'), JSON.stringify(MENDED));
    const now = await lockstep(check, { cwd });
    for (const it of known)
      expect(now.stdout).toContain(`✓ now passes with your settings   lockstep/regressions/${it}.json`);
    expect(now.code).toBe(0);
  });

  it('writes the description with what is advised in it, which is safe then', async () => {
    const cwd = folderWith(U1);
    await lockstep(['advise', 'system.json', '--runs', '50', '--save-advised', 'advised.json'], { cwd });
    expect(JSON.parse(readFileSync(join(cwd, 'advised.json'), 'utf8'))).toEqual(MENDED);
    expect((await lockstep(['advise', 'advised.json', '--runs', '50', '--check'], { cwd })).code).toBe(0);
  });

  it('puts what no line makes sure of into the verdict', async () => {
    const flags = ['--nodes', '3', '--library', 'redsync-4', '--persistence', 'always', '--no-reordering'];
    const { stdout } = await lockstep(['advise', ...flags, '--runs', '50', '--work', '3s']);
    expect(stdout).toContain('✓ SAFE, if messages of a client to a node keep their order');
  });

  it('does not call a search a sign of safety where something remains', async () => {
    const flags = ['--nodes', '3', '--library', 'redisson', '--persistence', 'always', '--runs', '50'];
    const { stdout } = await lockstep(['advise', ...flags]);
    expect(stdout).toContain('✗ NOT SAFE ');
    expect(stdout.replaceAll('\n', ' ')).toContain('That does not make it safe');
  });

  it('writes a description, a badge and a page', async () => {
    const cwd = folderWith(MENDED);
    const pages = ['--save', 'saved.json', '--badge', 'lock.svg', '--report', 'lock.html'];
    const { code, stdout } = await lockstep(['advise', 'system.json', '--runs', '200', '--ttl', '9s', ...pages], {
      cwd,
    });
    expect(code).toBe(0);
    expect(JSON.parse(readFileSync(join(cwd, 'saved.json'), 'utf8'))).toMatchObject({
      client: { ttl: '9s', library: 'redsync-4' },
    });
    expect(readFileSync(join(cwd, 'lock.svg'), 'utf8')).toContain('aria-label="redis lock: ');
    expect(readFileSync(join(cwd, 'lock.html'), 'utf8')).toContain('<!doctype html>');
    expect(stdout).toContain('lock.html');
  });

  it('says what a client does wrong by itself', async () => {
    const cwd = emptyFolder();
    const flags = ['--nodes', '3', '--library', 'redlock-universal', '--persistence', 'always'];
    const { stdout } = await lockstep(['advise', ...flags, '--runs', '500', '--json'], { cwd });
    expect(JSON.parse(stdout)).toMatchObject({ verdict: 'not' });
    const { story } = JSON.parse(readFileSync(join(cwd, '.lockstep/advise/client-after.json'), 'utf8'));
    expect(story).toMatch(/^Drawn by a search/);
  });

  it.each([
    [[], 'which system? Name a file (lockstep advise system.json), or describe it by flags; see --help'],
    [['none.json'], '"none.json": there is no such file; see --help for what it holds'],
    [
      ['--nodes', '3', '--library', 'redsync-5'],
      '/client/library: "redsync-5" is not a profile; did you mean "redsync-4"?',
    ],
    [
      ['--nodes', '3', '--ttl', '0'],
      '--ttl: "0" is not a whole number of milliseconds from 1 up; write it like 10s or 50ms',
    ],
    [['--nodes', '3', '--unit', 'a b'], '/nodes/unit: "a b" is not the name of a unit; write it like redis-server'],
    [['--redis', 'localhost'], '--redis: "localhost" is no address; write it like redis://10.0.0.1:6379'],
  ])('refuses %j in one sentence', async (flags, sentence) => {
    const { code, stderr, stdout } = await lockstep(['advise', ...flags]);
    expect({ code, stderr, stdout }).toEqual({ code: 64, stderr: `lockstep: ${sentence}\n`, stdout: '' });
  });
});
