import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { judgeAsExpected } from '../properties/expectation.js';
import { htmlReport } from './html.js';
import { payloadOf } from './payload-of.js';
import { CATALOGUE } from './testing/scenes.js';

const [scenario] = CATALOGUE;
if (scenario === undefined) throw new Error('the catalogue is empty');
const { schedule } = scenario;
const judgement = judgeAsExpected(schedule, scenario.expect);
const files = { script: 'const it = "<!--</script>";', style: 'body{}' };
const report = (story: string, mitigations: readonly string[] = []): string =>
  htmlReport(
    { ...payloadOf({ id: 'X', schedule, scenario, judgement, replay: 'lockstep replay X' }), story, mitigations },
    files,
  );

test('a text that looks like markup stays a text', () => {
  const html = report('</script><script>alert(1)</script><!--');
  expect(html).not.toContain('<script>alert');
  const data = /id="run">(.*)<\/script>/.exec(html)?.[1] ?? '';
  expect(JSON.parse(data).story).toBe('</script><script>alert(1)</script><!--');
});

test('the policy of the page lets in this viewer and nothing else', () => {
  const html = report('');
  const hash = createHash('sha256').update(files.script).digest('base64');
  expect(html).toContain("default-src 'none'; script-src 'sha256-");
  expect(html).toContain(`'sha256-${hash}'`);
  const packed = /id="viewer">(.*)<\/script>/.exec(html)?.[1] ?? '';
  expect(gunzipSync(Buffer.from(packed, 'base64')).toString()).toBe(files.script);
});

test('long data are packed', () => {
  const html = report('', ['x'.repeat(100_000)]);
  expect(html.length).toBeLessThan(20_000);
  const packed = /id="run" data-packed="gzip">(.*)<\/script>/.exec(html)?.[1] ?? '';
  expect(JSON.parse(gunzipSync(Buffer.from(packed, 'base64')).toString()).mitigations[0]).toHaveLength(100_000);
});
