import { describe, expect, it } from 'vitest';
import type { Fate, Fault } from '../scenarios/index.js';
import { lock, type Parts, story, trace } from './testing/schedule.js';

const ONE_NODE = { nodes: 1 };
const SET = { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request' } as const;
const ANSWER = { ...SET, direction: 'reply' } as const;

/** When c1's SETs reach nodes and their answers come back. */
function transport(parts: Parts): string[] {
  return story({ untilUs: 49_000, ...parts }, 'execute', 'reply', 'lost');
}

describe('a message', () => {
  it('takes the usual delay, that of its pair, or that of its own fate', () => {
    const distances = [{ client: 'c1', node: 'n0', delayUs: 300 }];
    expect(transport({ cluster: ONE_NODE })).toEqual(['1000 n0 execute', '2000 c1 reply']);
    expect(transport({ cluster: { ...ONE_NODE, distances } })).toEqual(['300 n0 execute', '600 c1 reply']);
    const fates: Fate[] = [{ ...SET, delayUs: 7 }];
    expect(transport({ cluster: { ...ONE_NODE, distances }, fates })).toEqual(['7 n0 execute', '307 c1 reply']);
  });

  it('is lost where its fate says so, copies and all', () => {
    expect(transport({ cluster: ONE_NODE, fates: [{ ...SET, lost: true, duplicateDelayUs: 5 }] })).toEqual([
      '0 c1 lost',
    ]);
    expect(transport({ cluster: ONE_NODE, fates: [{ ...ANSWER, lost: true }] })).toEqual([
      '1000 n0 execute',
      '1000 n0 lost',
    ]);
  });

  it('that is copied is executed twice, and each answer has a fate of its own', () => {
    const fates: Fate[] = [
      { ...SET, duplicateDelayUs: 3_000 },
      { ...ANSWER, send: 1, delayUs: 500 },
    ];
    const answers = trace({ cluster: ONE_NODE, fates, untilUs: 9_000 }).filter(({ kind }) => kind === 'reply');
    expect(answers.map(({ atUs, detail }) => [atUs, detail.answer])).toEqual([
      [2_000, 'yes'],
      [3_500, 'no'],
    ]);
  });

  it('is addressed by attempt and by how often it was sent', () => {
    const fates: Fate[] = [
      { ...SET, lost: true },
      { ...SET, attempt: 1, delayUs: 5 },
      { ...SET, operation: 'release', lost: true },
    ];
    const parts: Parts = { cluster: ONE_NODE, fates, untilUs: 400_000 };
    expect(story(parts, 'lost', 'execute', 'claim')).toEqual([
      '0 c1 lost',
      '50000 c1 lost',
      '250005 n0 execute',
      '251005 c1 claim',
    ]);
  });
});

describe('the order on one connection', () => {
  // The release is faster than the SET before it.
  const overtaking: Parts = {
    policy: { settings: { tries: 1 } },
    fates: [
      { ...SET, delayUs: 60_000 },
      { ...SET, operation: 'release', delayUs: 1_000 },
    ],
    untilUs: 61_000,
  };
  const order = (parts: Parts): unknown[] =>
    trace(parts)
      .filter(({ kind }) => kind === 'execute')
      .map(({ atUs, detail }) => [atUs, detail.operation]);

  it('is that of sending where links are FIFO', () => {
    expect(order({ ...overtaking, cluster: { ...ONE_NODE, link: 'fifo' } })).toEqual([
      [60_000, 'acquire'],
      [60_000, 'release'],
    ]);
  });

  it('is that of arrival where links reorder', () => {
    expect(order({ ...overtaking, cluster: { ...ONE_NODE, link: 'reordering' } })).toEqual([
      [51_000, 'release'],
      [60_000, 'acquire'],
    ]);
  });

  it('says nothing about other connections', () => {
    const parts: Parts = { cluster: { nodes: 2 }, fates: [{ ...SET, delayUs: 9_000 }], untilUs: 9_000 };
    expect(story(parts, 'execute')).toEqual(['1000 n1 execute', '9000 n0 execute']);
  });
});

describe('a partition', () => {
  const cut = (fields: Partial<Fault & { kind: 'partition' }>): Fault[] => [
    { kind: 'partition', atUs: 0, from: ['c1'], to: ['n0'], oneWay: false, forUs: 5_000, ...fields },
  ];
  const run = (faults: Fault[], atUs = 0): string[] =>
    transport({ cluster: { nodes: 2 }, locks: [[lock(atUs)]], faults });

  it('loses what is sent between its sides, and nothing else', () => {
    expect(run(cut({}))).toEqual(['0 c1 lost', '1000 n1 execute', '2000 c1 reply']);
    expect(run(cut({ from: ['n1'], to: ['n0'] }))).not.toContain('0 c1 lost');
  });

  it('goes both ways unless it is said to go one way', () => {
    const back = { from: ['n0'], to: ['c1'], atUs: 500 };
    expect(run(cut({ ...back, oneWay: true }))).toContain('1000 n0 lost');
    expect(run(cut({ from: ['c1'], to: ['n0'], atUs: 500, oneWay: true }))).not.toContain('1000 n0 lost');
    expect(run(cut({ from: ['c1'], to: ['n0'], atUs: 500 }))).toContain('1000 n0 lost');
  });

  it('lets messages through that are on their way, and is over at its end', () => {
    expect(run(cut({ atUs: 1 }))).toContain('1000 n0 execute');
    expect(run(cut({}), 4_999)).toContain('4999 c1 lost');
    expect(run(cut({}), 5_000)).not.toContain('5000 c1 lost');
    expect(run(cut({ forUs: 0 }))).not.toContain('0 c1 lost');
  });

  it('overlaps others without ending them', () => {
    const faults = [...cut({ forUs: 9_000 }), ...cut({ atUs: 1_000, forUs: 1_000 })];
    expect(run(faults, 8_999)).toContain('8999 c1 lost');
    expect(run(faults, 9_000)).not.toContain('9000 c1 lost');
  });
});
