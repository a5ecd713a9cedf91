import { describe, expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

const STALE = ['reads-before-lock'];

/** What reads and stores records of members and of rewards. */
interface Database {
  readonly head: string;
  readonly member: string;
  readonly reward: string;
  /** Stores this as the points of a member, on this condition. */
  readonly stores: (points: string, condition: string) => string;
}

const PRISMA: Database = {
  head: "import { PrismaClient } from '@prisma/client';\nconst prisma = new PrismaClient();",
  member:
    'await prisma.member.findUniqueOrThrow({ where: { card }, select: { id: true, points: true, version: true } })',
  reward: 'await prisma.reward.findUniqueOrThrow({ where: { id: rewardId } })',
  stores: (points, condition) => `await prisma.$transaction(async (tx) => {
      const { count } = await tx.member.updateMany({ where: { id: member.id${condition} }, data: { points: ${points}, version: member.version + 1 } });
      if (count === 0) throw new Error('changed');
    });`,
};

const KNEX: Database = {
  head: "import knex from 'knex';\nconst db = knex({ client: 'pg' });",
  member: "await db('members').where({ card }).first()",
  reward: "await db('rewards').where({ id: rewardId }).first()",
  stores: (points, condition) => `await db.transaction(async (trx) => {
      const count = await trx('members').where({ id: member.id${condition} }).update({ points: ${points} });
      if (count === 0) throw new Error('changed');
    });`,
};

const DRIZZLE: Database = {
  head: `import { and, eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { members, rewards } from './schema';
const db = drizzle(process.env.DB_URL!);`,
  member: '(await db.select().from(members).where(eq(members.card, card)))[0]',
  reward: '(await db.select().from(rewards).where(eq(rewards.id, rewardId)))[0]',
  stores: (points, condition) => {
    const where = condition === '' ? '' : ', eq(members.version, member.version)';
    return `await db.transaction(async (tx) => {
      await tx.update(members).set({ points: ${points} }).where(and(eq(members.id, member.id)${where}));
    });`;
  },
};

/** Takes points for a reward, under a lock; `before` is done before it asks for that, and `inside` under it. */
const redeeming = (head: string, before: string, inside: string): string => `import type { Redis } from 'ioredis';
${head}
const DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function redeem(redis: Redis, card: string, rewardId: string): Promise<void> {
  ${before}
  const [lock, token] = ['wallet:' + card, String(Math.random())];
  if ((await redis.set(lock, token, 'PX', 8_000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    ${inside}
  } finally {
    await redis.eval(DEL, 1, lock, token);
  }
}`;

const CHECKS = "if (member.points < reward.price) throw new Error('too few');";

describe.each([
  ['Prisma', PRISMA],
  ['Knex', KNEX],
  ['Drizzle', DRIZZLE],
])('records of %s', (_, { head, member, reward, stores }) => {
  const reads = `const member = ${member}; const reward = ${reward};`;
  const takes = 'member.points - reward.price';

  it('are read before the lock, and stored under it in a transaction', async () => {
    expect(await idsOf(redeeming(head, reads + CHECKS, stores(takes, '')))).toEqual(STALE);
    const other = `const reward = ${reward}; const member = ${member};`;
    expect(await idsOf(redeeming(head, other + CHECKS, stores(takes, '')))).toEqual(STALE);
  });

  it.each([
    ['are read under it', `const reward = ${reward};`, `const member = ${member}; ${CHECKS} ${stores(takes, '')}`],
    [
      'are read again under it',
      `${reads.replaceAll('member =', 'seen =')} if (seen.points < reward.price) throw new Error('too few');`,
      `const member = ${member}; ${CHECKS} ${stores(takes, '')}`,
    ],
    ['are stored where their version is the same', reads + CHECKS, stores(takes, ', version: member.version')],
    ['are stored as what does not depend on them', reads + CHECKS, stores('5', '').replace('member.version + 1', '2')],
  ])('%s', async (_name, before, inside) => {
    expect(await idsOf(redeeming(head, before, inside))).toEqual([]);
  });
});

it('lets pass what is added to a value, whatever it is made of', async () => {
  const head =
    "import { MongoClient } from 'mongodb';\nconst members = new MongoClient('').db().collection('members');";
  const reads = 'const member = await members.findOne({ card });';
  const stores = (change: string): string => `await members.updateOne({ card }, { ${change} });`;
  expect(await idsOf(redeeming(head, reads, stores('$inc: { points: 0 - member.bonus }')))).toEqual([]);
  expect(await idsOf(redeeming(head, reads, stores('$set: { points: member.points - 1 }')))).toEqual(STALE);
});
