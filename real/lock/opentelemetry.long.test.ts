import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type InstalledLock, installLock } from '../testing/installed-lock.js';

const SDK = '2.12.1';
const PACKAGES = [
  '@opentelemetry/api@1.9.0',
  `@opentelemetry/sdk-metrics@${SDK}`,
  `@opentelemetry/sdk-trace-base@${SDK}`,
];

const README = readFileSync(new URL('README.md', import.meta.url), 'utf8');
const SECTION = README.split('### OpenTelemetry')[1]?.split('\n## ')[0] ?? '';
const RECIPE = /```js\n(.*?)```/s.exec(SECTION)?.[1] ?? '';
/** Name, kind and unit of each metric in the table of the recipe. */
const TABLE = [...SECTION.matchAll(/^\| `([\w.]+)` \| (\w+), (\w+) \|/gm)].map(([, name, kind, unit]) => ({
  name,
  kind,
  unit,
}));

const PROGRAM = `
  import { metrics, trace } from '@opentelemetry/api';
  import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
  import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
  import { createClient } from 'redis';
  import { Redlock } from 'lockstep-redlock';

  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const provider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter })] });
  metrics.setGlobalMeterProvider(provider);
  const spans = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
  await import('./recipe.mjs');

  const clients = process.argv[2].split(',').map((url) => createClient({ url }));
  const redlock = new Redlock(clients, { nodeTimeoutMs: 5000, retryCount: 1, retryDelay: 5, retryJitter: 0 });
  const lock = await redlock.acquire('seen', 20_000, { votesWanted: 'all' });
  await redlock.acquire('seen', 20_000).catch(() => {});
  await lock.extend(30_000);
  await lock.release();
  const lost = await redlock.acquire('lost', 500);
  // A lock that is merely held does not keep the process alive.
  while (!lost.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 20));
  await redlock.quit();

  await provider.forceFlush();
  const [latest] = exporter.getMetrics().slice(-1);
  const seen = latest.scopeMetrics.flatMap(({ metrics }) => metrics.map(({ descriptor, dataPoints }) => ({
    name: descriptor.name,
    unit: descriptor.unit,
    points: dataPoints.map(({ attributes, value }) => ({ ...attributes, count: value.count ?? value })),
  })));
  const ended = spans.getFinishedSpans().map(({ name, status, attributes, startTime, endTime }) => ({
    name,
    status: status.message ?? null,
    event: attributes['lock.event'],
    resources: attributes['lock.resources'],
    isForward: endTime[0] > startTime[0] || (endTime[0] === startTime[0] && endTime[1] >= startTime[1]),
  }));
  console.log(JSON.stringify({ seen, ended, hasToken: JSON.stringify([seen, ended]).includes(lock.value) }));
  process.exit();`;

const UNITS: Readonly<Record<string, string>> = { ms: 'ms', attempts: '{attempt}', votes: '{vote}' };

interface Told {
  readonly seen: readonly { readonly name: string; readonly unit: string; readonly points: readonly object[] }[];
  readonly ended: readonly object[];
  readonly hasToken: boolean;
}

describe.skipIf(!canRunOnRedis('the recipe for OpenTelemetry'))('the recipe for OpenTelemetry', () => {
  let lock: InstalledLock;
  let redis: Provision;
  beforeAll(async () => {
    [lock, redis] = await Promise.all([installLock([...PACKAGES, 'redis']), provision({ nodes: 3 })]);
  });
  afterAll(async () => {
    await Promise.all([lock?.[Symbol.asyncDispose](), redis?.stop()]);
  });

  test('makes the metrics of its table, and a span for each operation', async () => {
    lock.write('recipe.mjs', RECIPE);
    lock.write('main.mjs', PROGRAM);
    const { seen, ended, hasToken }: Told = JSON.parse(
      await lock.run(process.execPath, ['main.mjs', redis.urls.join()]),
    );
    expect(hasToken).toBe(false);
    expect(seen.map(({ name, unit }) => ({ name, unit })).sort((a, b) => (a.name < b.name ? -1 : 1))).toEqual(
      TABLE.map(({ name = '', unit = '' }) => ({ name, unit: UNITS[unit] })).sort((a, b) => (a.name < b.name ? -1 : 1)),
    );
    const pointsOf = (name: string) => seen.find((it) => it.name === name)?.points;
    expect(pointsOf('lock.operation.duration')).toEqual([
      { 'lock.event': 'acquired', 'lock.operation': 'acquire', 'lock.code': 'none', count: 2 },
      { 'lock.event': 'contended', 'lock.operation': 'acquire', 'lock.code': 'ERR_LOCK_CONTENDED', count: 1 },
      { 'lock.event': 'extended', 'lock.operation': 'extend', 'lock.code': 'none', count: 1 },
      { 'lock.event': 'released', 'lock.operation': 'release', 'lock.code': 'none', count: 1 },
    ]);
    expect(pointsOf('lock.held.duration')).toEqual([
      { 'lock.event': 'released', count: 1 },
      { 'lock.event': 'lost', count: 1 },
    ]);
    expect(pointsOf('lock.node.votes')).toContainEqual({
      'lock.operation': 'acquire',
      'lock.vote': 'granted',
      'lock.node': 0,
      count: expect.any(Number),
    });
    const span = { status: null, resources: ['seen'], isForward: true };
    expect(ended).toEqual([
      { ...span, name: 'lock acquire', event: 'acquired' },
      { ...span, name: 'lock acquire', event: 'contended', status: 'ERR_LOCK_CONTENDED' },
      { ...span, name: 'lock extend', event: 'extended' },
      { ...span, name: 'lock release', event: 'released' },
      { ...span, name: 'lock acquire', event: 'acquired', resources: ['lost'] },
      { ...span, name: 'lock hold', event: 'lost', resources: ['lost'], status: 'ERR_LOCK_LOST' },
    ]);
  });
});
