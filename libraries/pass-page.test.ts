import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writePassPage } from './pass-page.js';

const passed = {
  runs: 100,
  claims: 312,
  classes: { even: 50, '<b>pauses</b>': 50 },
  untested: [],
  notes: ['It has no timer.'],
};

test('the page of a client in which nothing was found says what was tried, and what was not asked for', () => {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-')), 'in', 'lock.html');
  writePassPage(path, passed, {});
  const html = readFileSync(path, 'utf8');
  expect(html).toContain('No schedule was found that breaks the lock, in 100 cases with 312 acquisitions.');
  expect(html).toContain('<th scope="row">&lt;b&gt;pauses&lt;/b&gt;</th><td>50 cases</td>');
  expect(html).toContain('<th scope="row">not asked for</th><td>effect</td>');
  expect(html).toContain('It has no timer.');
});

test('a page that cannot be written is an error in one sentence', () => {
  expect(() => writePassPage('/dev/null/x.html', passed, {})).toThrow(
    /^passTo: \/dev\/null\/x.html cannot be written: /,
  );
});
