import { describe, expect, it } from 'vitest';
import type { Fate, Fault } from '../scenarios/index.js';
import { lock, type Parts, schedule, story, trace } from './testing/schedule.js';

const ONE_NODE = { nodes: 1 };
const SET = { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request' } as const;
const ANSWER = { ...SET, direction: 'reply' } as const;

/** When c1's SETs reach the node, what it says, and when the answers are back. */
function transport(parts: Parts): string[] {
  return story({ cluster: ONE_NODE, untilUs: 40_000, ...parts }, 'execute', 'reply', 'lost', 'dropped');
}

describe('a command that is sent again', () => {
  const again = (resendAfterUs: number, ...fates: Fate[]): Parts => ({ fates: [{ ...SET, resendAfterUs }, ...fates] });

  it('arrives a second time, and finds the key that it has set', () => {
    // Behind that, the client gives up and cleans up.
    expect(transport(again(3_000, { ...ANSWER, lost: true })).slice(0, 4)).toEqual([
      '1000 n0 execute',
      '1000 n0 lost',
      '4000 n0 execute',
      '5000 c1 reply',
    ]);
    const parts = { cluster: ONE_NODE, ...again(3_000, { ...ANSWER, lost: true }), untilUs: 6_000 };
    expect(trace(parts).findLast(({ kind }) => kind === 'reply')?.detail.answer).toBe('no');
  });

  it('is not sent if its answer has come', () => {
    expect(transport(again(2_001))).toEqual(['1000 n0 execute', '2000 c1 reply']);
  });

  it('takes the connection with it: the first answer is lost on its way', () => {
    expect(transport(again(1_500)).slice(0, 4)).toEqual([
      '1000 n0 execute',
      '2000 c1 dropped',
      '2500 n0 execute',
      '3500 c1 reply',
    ]);
  });

  it('overtakes what was sent over the old connection, fifo or not', () => {
    const parts: Parts = { fates: [{ ...SET, delayUs: 30_000, resendAfterUs: 2_000 }] };
    expect(transport(parts).slice(0, 2)).toEqual(['3000 n0 execute', '4000 c1 reply']);
  });

  it('has a fate of its own, as the next sending', () => {
    const parts = again(2_000, { ...ANSWER, lost: true }, { ...SET, send: 1, delayUs: 7_000 });
    expect(transport(parts)).toContain('9000 n0 execute');
  });

  it('waits for a client that is frozen, and is not sent for one that is dead', () => {
    const lost = { ...ANSWER, lost: true };
    const pause: Fault = { kind: 'pause', process: 'c1', atUs: 2_500, forUs: 10_000 };
    expect(transport({ ...again(3_000, lost), faults: [pause] })).toContain('13500 n0 execute');
    const death: Fault = { kind: 'client-crash', client: 'c1', atUs: 2_500 };
    expect(transport({ ...again(3_000, lost), faults: [death] })).toEqual(['1000 n0 execute', '1000 n0 lost']);
  });

  it('may be a release, which has been sent before', () => {
    const release = { ...SET, operation: 'release' } as const;
    const parts: Parts = {
      locks: [[lock(0, { holdUs: 3_000 })]],
      fates: [{ ...release, lost: true, resendAfterUs: 4_000 }],
    };
    expect(transport(parts).slice(2)).toEqual(['5000 c1 lost', '10000 n0 execute', '11000 c1 reply']);
  });

  it('only a request can be', () => {
    expect(() => schedule({ fates: [{ ...ANSWER, resendAfterUs: 5 }] })).toThrowErrorMatchingInlineSnapshot(
      `[ScheduleError: /fates/0/resendAfterUs: only a request is sent again; give it to the request, or leave it out]`,
    );
  });
});

describe('a partition that holds messages back', () => {
  const cut = (oneWay: boolean, ...[from, to]: [string, string]): Fault => {
    return { kind: 'partition', atUs: 0, from: [from], to: [to], oneWay, forUs: 9_000, holds: true };
  };

  it('lets them go when it is over', () => {
    expect(transport({ faults: [cut(false, 'c1', 'n0')] })).toEqual(['10000 n0 execute', '11000 c1 reply']);
    expect(transport({ faults: [cut(true, 'n0', 'c1')] })).toEqual(['1000 n0 execute', '10000 c1 reply']);
  });

  it('does not bring back what another one loses', () => {
    const { holds: _holds, ...loses } = cut(false, 'c1', 'n0') as Fault & { holds?: boolean };
    expect(transport({ faults: [cut(false, 'c1', 'n0'), loses as Fault] })).toEqual(['0 c1 lost']);
  });
});
