import { test } from 'vitest';
import { judge } from './judge.js';
import { lock, schedule, story, trace, unreached } from '../sim/testing/schedule.js';
const show = (x: unknown) => console.log(JSON.stringify(x, null, 0));
test('probe overlap end with forward step', () => {
  const s = schedule({ locks: [[lock(0)], [lock(2000)]], fates: unreached('c1', 'n3', 'n4'),
    faults: [{ kind: 'crash', node: 'n2', atUs: 3000, restartAfterUs: 0 }, { kind: 'clock-step', process: 'c1', atUs: 5_000_000, byUs: 20_000_000 }] });
  show(judge(s).violations);
});
test('availability false alarms', () => {
  show(judge(schedule({ locks: [[lock(0, {holdUs: 5000})], [lock(29_999_000)]] , untilUs: 30_000_000})).outages);
  show(judge(schedule({ policy: {tries: null}, locks: [[lock(0, {ttlMs: 60_000})], [lock(5000, {ttlMs: 1000})]] , untilUs: 30_000_000})).outages);
  show(judge(schedule({ policy: {tries: null}, locks: [[lock(0, {ttlMs: 60_000})], [lock(5000, {ttlMs: 1000})]] , faults: [{kind:'client-crash', client: 'c1', atUs: 4000}], untilUs: 30_000_000})).outages);
  show(judge(schedule({ policy: {tries: null}, locks: [[], [lock(0)]] , faults: [{kind:'pause', process: 'c2', atUs: 1000, forUs: 30_000_000}], untilUs: 30_000_000})).outages);
});
test('deferred order', () => {
  show(story({ cluster: {nodes: 3, link: 'reordering'}, locks: [[lock(0, )]], fates: [
    {client: 'c1', operation: 'acquire', node: 'n0', direction: 'reply', delayUs: 30_000},
    {client: 'c1', operation: 'acquire', node: 'n1', direction: 'reply', delayUs: 10_000},
  ], faults: [{kind: 'pause', process: 'c1', atUs: 1500, forUs: 40_000}], untilUs: 60_000}, 'reply', 'claim'));
  show(trace({ cluster: {nodes: 3, link: 'reordering'}, locks: [[lock(0, )]], fates: [
    {client: 'c1', operation: 'acquire', node: 'n0', direction: 'reply', delayUs: 30_000},
    {client: 'c1', operation: 'acquire', node: 'n1', direction: 'reply', delayUs: 10_000},
  ], faults: [{kind: 'pause', process: 'c1', atUs: 1500, forUs: 40_000}], untilUs: 60_000}).filter(e=>e.kind==='reply').map(e=>e.detail.node));
});
test('crash while paused', () => {
  show(story({ cluster: {nodes: 1}, locks: [[lock(0)]], faults: [{kind: 'pause', process: 'n0', atUs: 0, forUs: 40_000},{kind: 'crash', node: 'n0', atUs: 20_000, restartAfterUs: 0}], untilUs: 60_000}, 'execute','dropped', 'reply', 'claim', 'restart'));
});
test('failover of a paused master', () => {
  show(story({ cluster: {nodes: 1, replicaLagUs: 100}, locks: [[lock(10_000)]], faults: [{kind: 'pause', process: 'n0', atUs: 0, forUs: 40_000},{kind: 'failover', node: 'n0', atUs: 5_000}], untilUs: 60_000}, 'execute','dropped', 'reply', 'claim', 'failover'));
});
test('empty restart, then failover', () => {
  show(trace({ cluster: {nodes: 1, replicaLagUs: 100}, locks: [[lock(0)]], faults: [{kind: 'crash', node: 'n0', atUs: 5000, restartAfterUs: 0},{kind: 'failover', node: 'n0', atUs: 5_000_000}], untilUs: 6_000_000}).filter(e=>e.kind.startsWith('key')).map(e=>[e.atUs,e.kind, e.detail.how]));
});
test('write at the guard', () => {
  const j = judge(schedule({ locks: [[lock(0, {writes: [{checkAfterUs: 9_895_000, guardUs: 1000, sendAfterUs: 9_895_000, delayUs: 1000}]})]]}));
  show([j.violations, j.assumptionsBroken]);
  const k = judge(schedule({ locks: [[lock(0, {holdUs: 1000, writes: [{checkAfterUs: 500, guardUs: 100_000, sendAfterUs: 2000, delayUs: 1000}]})]]}));
  show([k.violations, k.assumptionsBroken]);
});
test('names of clients', () => {
  const s = {...schedule({}), clients: [{id: 'c2', locks: [lock(0)]}]};
  void s;
});
import { loadCatalogue } from '../scenarios/catalogue.js';
import { variantSchedule } from '../scenarios/index.js';
import { expect } from 'vitest';
for (const sc of loadCatalogue()) {
  const cases = [['itself', sc.schedule, sc.expect] as const, ...[...sc.flips, ...sc.neighbours].map((v) => [v.title, variantSchedule(sc, v), v.expect] as const)];
  for (const [title, s, e] of cases) test(`${sc.id} ${title}`, () => {
    const j = judge(s, [], true);
    expect(j.verdict).toBe(e.verdict);
    for (const v of e.violations ?? []) expect(j.violations).toContainEqual(expect.objectContaining(v));
    if (e.unavailable) expect(j.outages.map(({fromUs, toUs}) => ({fromUs, toUs}))).toEqual(e.unavailable);
    if (e.claims) expect(j.run.trace.filter((t) => t.kind === 'claim').map((t) => `${t.process}@${t.atUs}`)).toEqual(e.claims);
  });
}
