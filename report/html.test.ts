import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { judgeAsExpected } from '../properties/expectation.js';
import { htmlReport } from './html.js';
import type { Payload } from './payload.js';
import { payloadOf } from './payload-of.js';
import { CATALOGUE } from './testing/scenes.js';

const [scenario] = CATALOGUE;
if (scenario === undefined) throw new Error('the catalogue is empty');
const { schedule } = scenario;
const judgement = judgeAsExpected(schedule, scenario.expect);
const files = { script: 'const it = "<!--</script>";', style: 'body{}', engine: 'run()' };
const payload = payloadOf({ id: 'X', schedule, scenario, judgement, replay: 'lockstep replay X' });
const report = (change: Partial<Payload>): string => htmlReport({ ...payload, ...change }, files);
/** A text that no packing makes small enough to be carried plainly. */
const long = 'x'.repeat(100_000);

test('a text that looks like markup stays a text', () => {
  const html = report({ story: '</script><script>alert(1)</script><!--', taken: null });
  expect(html).not.toContain('<script>alert');
  const data = /id="run">(.*)<\/script>/.exec(html)?.[1] ?? '';
  expect(JSON.parse(data).story).toBe('</script><script>alert(1)</script><!--');
});

test('the policy of the page lets in this viewer and nothing else', () => {
  const html = report({});
  const hash = createHash('sha256').update(files.script).digest('base64');
  expect(html).toContain("default-src 'none'; script-src 'sha256-");
  expect(html).toContain(`'sha256-${hash}'`);
  const packed = /id="viewer">(.*)<\/script>/.exec(html)?.[1] ?? '';
  expect(gunzipSync(Buffer.from(packed, 'base64')).toString()).toBe(files.script);
});

test('long data are packed', () => {
  const html = report({ counterfactual: { schedules: long, rows: [] } });
  expect(html.length).toBeLessThan(20_000);
  const packed = /id="run" data-packed="gzip">(.*)<\/script>/.exec(html)?.[1] ?? '';
  expect(JSON.parse(gunzipSync(Buffer.from(packed, 'base64')).toString()).counterfactual.schedules).toBe(long);
});

test('what runs schedules is there only where there is something to run', () => {
  const engine = createHash('sha256').update(files.engine).digest('base64');
  expect(report({})).toContain(`'sha256-${engine}'`);
  expect(report({})).toContain('id="engine"');
  const recording = report({ source: { kind: 'recording', why: 'It was made on real nodes.', part: null } });
  expect(recording).not.toContain(`'sha256-${engine}'`);
  expect(recording).not.toContain('id="engine"');
});
