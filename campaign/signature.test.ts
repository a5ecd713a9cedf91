import { expect, it } from 'vitest';
import { lock, schedule } from '../sim/testing/schedule.js';
import { signatureOf } from './signature.js';

const CRASH = { kind: 'crash', node: 'n2', atUs: 9_000, restartAfterUs: 0 } as const;

it('is the same whatever the times, the nodes and the names of clients are', () => {
  const one = schedule({
    locks: [[lock(0)], [lock(30_000)]],
    faults: [CRASH],
    fates: [
      { client: 'c1', operation: 'acquire', node: 'n3', direction: 'request', lost: true },
      { client: 'c1', operation: 'acquire', node: 'n4', direction: 'request', lost: true },
    ],
  });
  const other = schedule({
    locks: [[], [lock(5)], [lock(7)]],
    faults: [{ ...CRASH, node: 'n0', atUs: 77 }],
    fates: [{ client: 'c3', operation: 'acquire', node: 'n1', direction: 'request', lost: true }],
  });
  expect(signatureOf('mutual-exclusion', one)).toBe('mutual-exclusion: 1+1 locks, crash, acquire request lost');
  expect(signatureOf('mutual-exclusion', other)).toBe(signatureOf('mutual-exclusion', one));
});

it('differs with the property, the faults, and what becomes of messages', () => {
  const faults = [CRASH, { kind: 'clock-step', process: 'c1', atUs: 1, byUs: 5 } as const];
  const shapes = [
    signatureOf('mutual-exclusion', schedule({ faults: [CRASH] })),
    signatureOf('quorum-backed', schedule({ faults: [CRASH] })),
    signatureOf('quorum-backed', schedule({ faults: [CRASH, CRASH] })),
    signatureOf('quorum-backed', schedule({ faults })),
    signatureOf(
      'quorum-backed',
      schedule({ fates: [{ client: 'c1', operation: 'release', node: 'n1', direction: 'reply', delayUs: 9 }] }),
    ),
  ];
  expect(new Set(shapes).size).toBe(shapes.length);
  expect(shapes[3]).toContain('client clock-step, crash');
  expect(shapes[4]).toContain('release reply held up');
});
