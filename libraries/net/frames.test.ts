import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { decidedBy } from '../frames.js';
import { lockFactoryOf } from '../lock-factory.js';
import { replayLibraries } from '../run.js';
import { WRONG_SOCKET_LOCKS } from '../testing/clients/wrong-socket-locks.js';
import { plan, scheduleOf } from '../testing/schedules.js';

it.each(Object.entries(WRONG_SOCKET_LOCKS))(
  'names the line that deletes the lock of another, above %s',
  async (id, make) => {
    const subject = await lockFactoryOf(id, make, undefined);
    // c1 releases after its TTL, and so deletes the lock that c2 has by then.
    const drawn = scheduleOf([[plan(0, 2_100_000)], [plan(1_600_000, 800_000)]]);
    const schedule = { ...drawn, cluster: { ...drawn.cluster, nodes: 1 } };
    const { run, violations, frames } = await replayLibraries(subject, schedule, { trace: true });
    const [first] = violations;
    if (first === undefined) throw new Error('nothing was found');
    const decided = decidedBy(first, run.trace, frames) ?? '';
    const [, path = '', line = '0'] = /^(\S+):(\d+):\d+ {3}DEL a of c1$/.exec(decided) ?? [];
    expect(path).toBe('libraries/testing/clients/wrong-socket-locks.ts');
    expect(readFileSync(path, 'utf8').split('\n')[Number(line) - 1]).toMatch(/^ +drop: /);
    // What a library sends by itself, or has kept until it was connected, is due to no line that is known.
    const others = frames.filter(({ said }) => !/^(?:SET|DEL)/.test(said));
    expect(others.map(({ where }) => where).filter((it) => it !== null)).toEqual([]);
    const [kept] = frames.filter(({ said }) => said.startsWith('SET'));
    expect(kept?.where).toBeNull();
  },
);
