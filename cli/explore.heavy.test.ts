import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { judge } from '../properties/judge.js';
import { addressOf } from '../report/playground/index.js';
import { unpacked } from '../report/playground/pack.js';
import { Exit } from './exit-codes.js';
import { Pace } from './explore.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

describe('the time that is left', () => {
  it('is unknown while more is found than looked at, then follows from how much less', () => {
    const pace = new Pace();
    expect(pace.left({ states: 100, waiting: 90 }, 1)).toBe('still growing');
    expect(pace.left({ states: 300, waiting: 270 }, 2)).toBe('still growing');
    const slower = new Pace();
    slower.left({ states: 1000, waiting: 600 }, 10);
    // 200 looked at and 100 found in 2 s: 500 that wait lead to 1000 looks.
    expect(slower.left({ states: 1100, waiting: 500 }, 12)).toBe('about 10 s left');
  });
});

describe('lockstep explore', () => {
  it('says safe of a space that it met whole', async () => {
    const { code, stdout } = await lockstep(['explore', '--nodes', '2', '--ttl', '2']);
    expect(code).toBe(Exit.ok);
    expect(stdout).toContain('✓ safe   the space is exhausted, nothing was violated\n  3 343 states');
    expect(stdout).toContain('docs/explorer.md');
  });

  it('shows a shortest way to a violation, as a file that replays', async () => {
    const cwd = emptyFolder();
    const { code, stdout } = await lockstep(['explore', '--crash', '1', '--restart-delay', '0'], { cwd });
    expect(code).toBe(Exit.violated);
    expect(stdout).toContain('✗ violated   the shortest way has 11 actions');
    // No clock drifts.
    expect(stdout.replace(/\s+/g, ' ')).toContain(
      'Assumptions of the lock that the schedule breaks: durability (a node that voted may be back without its key).',
    );
    const [, path = ''] = /replay (\S+\.json)/.exec(stdout) ?? [];
    const replayed = await lockstep(['replay', path], { cwd });
    expect(replayed.code).toBe(Exit.ok);
    expect(replayed.stdout).toContain('✗ mutual exclusion');
    expect(replayed.stdout).toContain('✓ reproduced');
  });

  it('names the command that opens its way in the playground, judged by its property', async () => {
    const cwd = emptyFolder();
    const argv = ['explore', '--property', 'quorum-backed', '--crash', '1', '--restart-delay', '0'];
    const { stdout } = await lockstep(argv, { cwd });
    const [, command = ''] = /by hand\s+lockstep (playground .*) --open$/m.exec(stdout) ?? [];
    const { fragment } = JSON.parse((await lockstep([...command.split(' '), '--json'], { cwd })).stdout);
    const { panel, run, also } = addressOf(fragment);
    expect({ panel, also }).toEqual({ panel: 'step', also: ['quorum-backed'] });
    const { violations } = judge(await unpacked(run), also);
    expect(violations.map(({ property }) => property)).toContain('quorum-backed');
  });

  it.each([
    ['a violation', 'the shortest way has 11 actions', ['--crash', '1', '--restart-delay', '0']],
    [
      'a trap',
      'nobody can ever acquire from',
      ['--liveness', '--retries', 'forever', '--timeout', '1', '--clients', '1', '--nodes', '1', '--crash', '1'],
    ],
  ])('leaves %s as a failure that the next search knows', async (_, said, flags) => {
    const cwd = emptyFolder();
    const explored = await lockstep(['explore', ...flags], { cwd });
    expect(explored.code).toBe(Exit.violated);
    expect(explored.stdout).toContain(said);
    const { code, stdout } = await lockstep(['check', '--runs', '10'], { cwd });
    expect(stdout).toContain('Replayed 1 known schedule first: reproduced.');
    expect(code).not.toBe(Exit.notReproduced);
  });

  it('prints one JSON object', async () => {
    const cwd = emptyFolder();
    const { code, stdout } = await lockstep(['explore', '--mutant', 'M02', '--json'], { cwd });
    expect(code).toBe(Exit.violated);
    const json = JSON.parse(stdout);
    expect(Object.keys(json)[0]).toBe('schema');
    expect(json).toMatchObject({
      schema: 'lockstep.explore/1',
      verdict: 'violated',
      states: 12_021,
      exhausted: false,
      counterexample: { property: 'mutual-exclusion', actions: 13 },
    });
    expect(existsSync(join(cwd, json.counterexample.schedule))).toBe(true);
  });

  it('looks for clients that can never acquire', async () => {
    const flags = ['--liveness', '--retries', 'forever', '--timeout', '1', '--clients', '1', '--crash', '1'];
    const one = await lockstep(['explore', ...flags]);
    expect({ code: one.code, safe: one.stdout.includes('from every state somebody can still acquire') }).toEqual({
      code: Exit.ok,
      safe: true,
    });
  });

  it('leaves a space unexhausted at a limit, and goes on from its checkpoint', async () => {
    const cwd = emptyFolder();
    const flags = ['explore', '--nodes', '2', '--ttl', '2', '--checkpoint', 'a.space'];
    const stopped = await lockstep([...flags, '--max-states', '1000'], { cwd });
    expect(stopped.code).toBe(Exit.inconclusive);
    expect(stopped.stdout).toContain('the same command goes on from a.space');
    const ended = await lockstep([...flags, '--json'], { cwd });
    const whole = await lockstep([...flags.slice(0, -2), '--json'], { cwd });
    expect(JSON.parse(ended.stdout).states).toBe(JSON.parse(whole.stdout).states);
    expect(ended.code).toBe(Exit.ok);
    const other = await lockstep(['explore', '--nodes', '1', '--checkpoint', 'a.space'], { cwd });
    expect(other.code).toBe(Exit.usage);
    expect(other.stderr).toContain('other bounds');
  });

  it('stops on an interruption with what it has', async () => {
    const { code, stdout } = await lockstep(['explore'], { signal: AbortSignal.abort() });
    expect(code).toBe(Exit.interrupted);
    expect(stdout).toContain('not exhausted   interrupted');
  });

  it.each([
    [['--nodes', '9'], '--nodes: "9" is not a whole number from 1 to 7'],
    [['--drift-allowance', '3'], 'the allowance must be less than the TTL'],
    [['--mutant', 'M99'], 'is not a planted bug of the policy'],
    [['--mutant', 'M43'], 'beliefEnds: only owners that stop believing as they call release are explored'],
    [['--liveness', '--order', 'depth'], '--liveness: leave out "--order"'],
    [['--restart-delay', 'soon'], '--restart-delay: "soon"'],
  ])('refuses %j in one sentence', async (flags, sentence) => {
    const { code, stderr } = await lockstep(['explore', ...flags]);
    expect(code).toBe(Exit.usage);
    expect(stderr).toContain(sentence);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  it('refuses a checkpoint that is only a part of one', async () => {
    const cwd = emptyFolder();
    const flags = ['explore', '--checkpoint', 'a.space', '--max-states', '1000'];
    await lockstep(flags, { cwd });
    const file = join(cwd, 'a.space');
    writeFileSync(file, readFileSync(file).subarray(0, 100));
    const { code, stderr } = await lockstep(flags, { cwd });
    expect(code).toBe(Exit.usage);
    expect(stderr).toContain('a.space: it is no checkpoint');
  });
});
