import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

/** Gives a guest the first free room by WATCH, over a connection of its own, and tells what `exec` comes to by `tells`. */
const rooms = (tells: string, tries = 1): string => `import { Redis } from 'ioredis';
export async function book(own: Redis, hotel: string, guest: string): Promise<{ room: number } | null> {
  const key = 'rooms:' + hotel;
  for (let i = 0; i < ${tries}; i++) {
    await own.watch(key);
    const taken = await own.hgetall(key);
    const room = [1, 2, 3, 4, 5].find((it) => !(it in taken));
    if (room === undefined) { await own.unwatch(); return null; }
    const done = await own.multi().hset(key, room, guest).exec();
    ${tells}
  }
  return null;
}`;

it('finds an update that takes a refused transaction for done', async () => {
  expect(await idsOf(rooms('for (const [error] of done ?? []) if (error) throw error; return { room };'))).toEqual([
    'ignores-exec',
  ]);
});

it.each([
  ['tells its caller', 'return done === null ? null : { room };', 1],
  ['throws', "if (done === null) throw new Error('somebody was faster'); return { room };", 1],
  ['tries again', 'if (done !== null) return { room };', 9],
])('passes one that %s', async (_, tells, tries) => {
  const { ids, understood } = await audited(rooms(tells, tries));
  expect([ids, understood]).toEqual([[], expect.stringContaining('an optimistic update')]);
});

it('finds one that reads before it watches', async () => {
  const text = rooms('return done === null ? null : { room };');
  const watch = '    await own.watch(key);\n';
  const late = text.replace(watch, '').replace('    const done', `${watch}    const done`);
  expect(await idsOf(late)).toEqual(['reads-before-watch']);
});
