import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeReport } from './report-file.js';
import { emptyFolder, lockstep } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

test('the demonstration finds its violation, and its replay gives the same hash', async () => {
  const cwd = emptyFolder();
  const { code, stdout, stderr } = await lockstep(['check', '--demo', '--json'], { cwd });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const { counterexample, ...result } = JSON.parse(stdout);
  expectToFit(JSON.parse(stdout));
  expect(Object.keys(JSON.parse(stdout))[0]).toBe('schema');
  expect(result).toMatchObject({ schema: 'lockstep.check/1', verdict: 'violated', assumptionsBroken: ['durability'] });
  expect(counterexample).toMatchObject({ property: 'mutual-exclusion', kind: 'belief' });
  expect(counterexample.preventedBy).toEqual(['persistence=always', 'restart-delay=ttl']);
  expect(counterexample.replay).toBe(`lockstep replay ${counterexample.schedule}`);

  const replayed = await lockstep(['replay', counterexample.schedule, '--json'], { cwd });
  expect(replayed.code).toBe(0);
  expect(JSON.parse(replayed.stdout)).toMatchObject({ hash: counterexample.hash, reproduced: true });
  const mitigated = await lockstep(['replay', counterexample.schedule, '--with', 'persistence=always'], { cwd });
  expect(mitigated.code).toBe(0);
});

test('the demonstration tells its story on one screen', async () => {
  const { stdout } = await lockstep(['check', '--demo'], { cwd: emptyFolder(), command: 'npm run -s lockstep --' });
  const [first = '', second = '', , ...lines] = stdout.split('\n');
  expect(`${first} ${second}`).toMatch(
    /^Searching 1 000 schedules for a violation of mutual exclusion, or of quorum-backed within the assumptions: 2 clients, /,
  );
  const end = lines.findIndex((line) => line.startsWith('  replay  '));
  expect(lines[end]).toMatch(/^ {2}replay {8}npm run -s lockstep -- replay \.lockstep\/failures\/\S+\.json$/);
  expect(end + 1).toBeLessThanOrEqual(20);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(88);
  expect(stdout).toMatch(/crashes, restarts at once; [A-Z] forgotten/);
  expect(stdout).toMatch(/HELD {2}HELD {3}← both/);
  expect(stdout).toMatch(
    /c[12] and c[12] both held a for [\d .]+ ms: n\d voted twice, it forgot [A-Z] in the restart\./,
  );
});

test('a demonstration that finds nothing is not reproduced', async () => {
  const { code, stdout } = await lockstep(['check', '--demo', '--persistence', 'always', '--runs', '100']);
  expect(code).toBe(3);
  expect(stdout).toContain('expected to find a violation, and found none');
});

test('a violation exits with 1 and leaves one whole file, and its report', async () => {
  const cwd = emptyFolder();
  const flags = ['--faults', 'crash=1,partition=1', '--restart-delay', '0', '--ttl', '10s', '--no-shrink'];
  const { code } = await lockstep([...flags, '--seed', '../x y'], { cwd, writeReport });
  expect(code).toBe(1);
  const folder = join(cwd, '.lockstep', 'failures');
  const files = readdirSync(folder);
  expect(files).toEqual([
    expect.stringMatching(/^seed\.\.-x-y-\d+\.html$/),
    expect.stringMatching(/^seed\.\.-x-y-\d+\.json$/),
  ]);
  expect(readFileSync(join(folder, files[0] ?? ''), 'utf8')).toMatch(/^<!doctype html>[\s\S]*<\/html>\n$/);
});

test('a finding is told even where it cannot be written', async () => {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, '.lockstep'), 'in the way');
  const { code, stdout, stderr } = await lockstep(['check', '--demo', '--json'], { cwd });
  expect(code).toBe(0);
  const { verdict, counterexample } = JSON.parse(stdout);
  expect({ verdict, ...counterexample }).toMatchObject({ verdict: 'violated', schedule: null, replay: null });
  const why = /^lockstep: \.lockstep\/failures\/1-\d+\.json cannot be written: a part of its path is no folder\n$/;
  expect(stderr).toMatch(why);
});

test('a pass says what was exercised, what was not, and under which assumptions', async () => {
  const cwd = emptyFolder();
  const { code, stdout, stderr } = await lockstep(['--runs', '300', '--ttl', '10s'], { cwd });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^✓ passed {3}300 schedules, [\d ]+ events in [\d.]+ s {3}seed 1 {3}hash [0-9a-f]{16}$/m);
  expect(stdout).toContain('assumed       clocks run right to within 5 126 ppm');
  expect(stdout).toContain('clocks jump by 102 ms in all, or less');
  expect(stdout).toContain('nodes that crash are back empty after 9 898 ms, or later');
  expect(stdout).toMatch(/exercised {5}[\d ]+ claims, /);
  // 1 - 0.05 ^ (1 / 300)
  const text = stdout.replace(/\s+/g, ' ');
  expect(text).toContain(
    'Fewer than 1.00 % of the schedules that this search draws do, at 95 %; that is not a share of',
  );
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
  expect(existsSync(join(cwd, '.lockstep'))).toBe(false);
});

test('a share of other schedules is told', async () => {
  const { stdout } = await lockstep(['--runs', '60', '--json', '--strategy', 'swarm']);
  expect(JSON.parse(stdout).shareBelow).toBeCloseTo(1 - 0.05 ** (1 / 60), 6);
});

test('a pass as JSON keeps its contract, whatever is left of it the next time', async () => {
  const argv = ['check', '--runs', '200', '--properties', 'mutual-exclusion,quorum-backed,no-stale-write', '--json'];
  const [first, second] = [await lockstep(argv), await lockstep(argv)];
  const { elapsedMs, ...result } = JSON.parse(first.stdout);
  expect(result).toMatchObject({
    schema: 'lockstep.check/1',
    verdict: 'passed',
    runs: 200,
    seed: '1',
    verdicts: { belief: 'safe', state: 'safe', effect: 'safe', liveness: 'unchecked', unavailable: [] },
    assumptionsBroken: [],
    interrupted: false,
    configuration: { runs: 200, faultModel: { nodes: 5, policy: { profile: 'reference' } } },
  });
  const progress = await lockstep(['check', '--runs', '200', '--properties', 'progress', '--json']);
  expect(JSON.parse(progress.stdout).verdicts).toMatchObject({ belief: 'unchecked', liveness: 'safe' });
  expect(Object.keys(result)).toEqual(expect.arrayContaining(['events', 'hash', 'exercised', 'notHit']));
  expect(elapsedMs).toBeGreaterThanOrEqual(0);
  expect(JSON.parse(second.stdout)).toMatchObject({ hash: result.hash, events: result.events });
});

test('a pass in which a fault that was asked for never met a claim is inconclusive', async () => {
  const { code, stdout } = await lockstep(['--runs', '2', '--faults', 'client-crash=1']);
  expect(code).toBe(2);
  expect(stdout).toMatch(/^\? inconclusive/m);
  expect(stdout).toMatch(/there were\s+no\s+clients\s+that\s+died\s+inside\s+a\s+claim/);
});

test('an interrupted search tells what it has, and exits with 130', async () => {
  const signal = AbortSignal.abort();
  const { code, stdout } = await lockstep(['check', '--json'], { signal });
  expect(code).toBe(130);
  expect(JSON.parse(stdout)).toMatchObject({ interrupted: true, runs: 0 });
});

test('an even number of nodes is warned of, on stderr', async () => {
  const { code, stdout, stderr } = await lockstep(['--nodes', '4', '--runs', '300', '--json']);
  expect(code).toBe(0);
  expect(JSON.parse(stdout).verdict).toBe('passed');
  expect(stderr).toBe(
    'lockstep: warning: 4 nodes go on with 1 of them down, no more than 3 nodes would; use an odd number\n',
  );
});

test('progress is one line on a terminal, and nothing elsewhere', async () => {
  const argv = ['--budget', '350ms', '--json'];
  const on = { isTTY: true, write: () => true };
  const terminal = await lockstep(argv, { stderr: on });
  expect(terminal.stderr).toMatch(/ schedules, [\d ]+\/s, nothing found, \d+ s left/);
  expect(terminal.stderr).not.toContain('\n');
  expect(terminal.stderr.endsWith('\r\u001b[2K')).toBe(true);
  expect((await lockstep(argv)).stderr).toBe('');
});

test('colour is for terminals that want it', async () => {
  const terminal = { isTTY: true, write: () => true };
  const argv = ['--runs', '50'];
  expect((await lockstep(argv, { stdout: terminal })).stdout).toContain('\u001b[32m✓ passed');
  expect((await lockstep(argv, { stdout: terminal, env: { NO_COLOR: '1' } })).stdout).not.toContain('\u001b');
});

test('properties of the protocol can be asked for', async () => {
  const argv = ['check', '--runs', '200', '--properties', 'acquisition,cleanup,continuity', '--json'];
  const { code, stdout } = await lockstep(argv);
  expect(code).toBe(0);
  expect(JSON.parse(stdout).configuration.properties).toEqual(['acquisition', 'cleanup', 'continuity']);
});

test('the help says which properties there are', async () => {
  const { stdout } = await lockstep(['check', '--help']);
  expect(stdout).toContain('Without --properties: mutual-exclusion, ');
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(112);
});

test('a run that keeps the assumptions is judged by validity, whichever faults are named', async () => {
  const argv = [
    'check',
    '--profile',
    'redlock-universal',
    '--faults',
    'crash=1,clock-step=200ms',
    '--no-shrink',
    '--json',
  ];
  const { code, stdout } = await lockstep([...argv, '--runs', '100'], { cwd: emptyFolder() });
  expect(code).toBe(1);
  const { counterexample, assumptionsBroken, judgedInside, notJudged } = JSON.parse(stdout);
  expect({ property: counterexample.property, assumptionsBroken }).toEqual({
    property: 'quorum-backed',
    assumptionsBroken: [],
  });
  expect(judgedInside).toEqual(['quorum-backed']);
  expect(notJudged).toContain('no-stale-write');
  expect(notJudged).not.toContain('quorum-backed');
});

test('a pass says which faults it left out, what it does not judge, and that messages were on time', async () => {
  const { code, stdout } = await lockstep(['--runs', '300', '--ttl', '10s', '--faults', 'crash=1,clock-step=50ms']);
  expect(code).toBe(0);
  const text = stdout.replace(/\s+/g, ' ');
  expect(text).toContain(' withstood up to 1 crash a run exercised ');
  expect(text).toMatch(
    / not tried .*losses of power, .*pauses, .* and messages that are lost, copied or held up \(all are on time\) /,
  );
  expect(/ not tried (.*) not judged /.exec(text)?.[1]).not.toMatch(/node crashes|suspends|clock steps|node restarts/);
  expect(text).toMatch(/ not judged acquisition, .*no stale write, .* and progress /);
});

test('faults that the lock does not withstand are no reason to say that there are none', async () => {
  const skewed = ['--runs', '100', '--persistence', 'always', '--profile', 'distributed-lock-redis'];
  const { stdout } = await lockstep([...skewed, '--faults', 'clock-step=200ms', '--no-regressions']);
  expect(stdout).toContain('  assumed       clocks jump by 200 ms (the lock assumes up to ');
  expect(stdout).toContain('  withstood     no other faults\n');
  expect(stdout.replace(/\s+/g, ' ')).toContain(
    ' not judged quorum-backed beyond the assumptions of the lock, acquisition, ',
  );
  const none = await lockstep(['--runs', '100', '--faults', 'none']);
  expect(none.stdout).toContain('  withstood     no faults at all\n');
});

test('what was not tried and not judged is said as JSON and by reporters too', async () => {
  const argv = ['check', '--runs', '100', '--ttl', '10s', '--faults', 'pause=1'];
  const { notTried, notJudged, judgedInside } = JSON.parse((await lockstep([...argv, '--json'])).stdout);
  expect(notTried).toEqual(expect.arrayContaining(['node crashes', 'losses of power', 'clock steps']));
  expect(notTried).not.toContain('pauses');
  expect(notJudged).toContain('fencing');
  expect(judgedInside).toEqual([]);
  for (const reporter of ['junit', 'minimal'])
    expect((await lockstep([...argv, '--reporter', reporter])).stdout).toMatch(
      /passed: 100 schedules, .*; not tried: .*node crashes, .*; not judged: acquisition, /,
    );
  const all = await lockstep(['check', '--runs', '100', '--json']);
  expect(JSON.parse(all.stdout).notTried).toEqual(['replicas that are behind']);
});
