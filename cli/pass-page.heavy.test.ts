import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Exit } from './exit-codes.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

async function pageOf(
  argv: readonly string[],
  page = 'pass.html',
): Promise<{ readonly stdout: string; readonly html: string }> {
  const cwd = emptyFolder();
  const { code, stdout, stderr } = await lockstep([...argv, '--report', page], { cwd });
  expect([code, stderr]).toEqual([Exit.ok, '']);
  return { stdout, html: readFileSync(join(cwd, page), 'utf8') };
}

test('a search that found nothing has a page: bounds, what was tried and what was not, what to change, and its command', async () => {
  const argv = ['check', '--runs', '400', '--faults', '-pause', '--no-regressions', '--no-config'];
  const { stdout, html } = await pageOf(argv);
  expect(stdout).toMatch(/report +pass\.html/);
  expect(html).toContain('✓ passed');
  for (const title of [
    'How far each bound is',
    'Where the lock is safe',
    'What was tried',
    'What was not tried',
    'Near misses',
  ])
    expect(html).toContain(`<h2>${title}</h2>`);
  expect(html).toMatch(/<th scope="row">faults<\/th><td>pauses/);
  expect(html).toContain('tried up to here');
  expect(html).toContain('persistence=always: every acknowledged write is on disk');
  expect(html).toContain('lockstep check --runs 400 --faults -pause --no-regressions --no-config --report pass.html');
});

test('what somebody said of clocks is where they are on the map, and how much of the bound that is', async () => {
  const argv = [
    'check',
    '--runs',
    '400',
    '--ttl',
    '10s',
    '--faults',
    'crash=1,clock-step=20ms',
    '--no-regressions',
    '--no-config',
  ];
  const { html } = await pageOf(argv);
  expect(html).toContain('<strong>20 ms</strong>, safe with at most 102 ms');
  expect(html).toContain('20 % of the bound is used');
});

test('so do a space that is exhausted, and a campaign', async () => {
  const space = await pageOf(['explore', '--ttl', '2', '--clients', '1']);
  expect(space.html).toContain('✓ safe');
  expect(space.html).toContain('add them by --crash 1');
  const many = await pageOf(['campaign', '--runs', '400', '--range-runs', '200', '--workers', '1', '--no-config']);
  expect(many.html).toContain('✓ passed');
  expect(many.html).toContain('No violation was found in 400 schedules');
});

test('a failure writes the page of its counterexample, and none for a pass', async () => {
  const cwd = emptyFolder();
  const { code, stdout } = await lockstep(['check', '--demo', '--report', 'found.html'], { cwd });
  expect(code).toBe(Exit.ok);
  expect(stdout).toContain('found.html');
  expect(readFileSync(join(cwd, 'found.html'), 'utf8')).toBe('a page');
});

test('a page that cannot be written is said, and the result is not lost with it', async () => {
  const { code, stdout, stderr } = await lockstep(
    ['check', '--runs', '300', '--no-regressions', '--no-config', '--report', '/dev/null/x.html'],
    {},
  );
  expect(code).toBe(Exit.ok);
  expect(stdout).toContain('passed');
  expect(stderr).toContain('/dev/null/x.html');
});
