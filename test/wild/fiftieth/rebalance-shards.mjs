#!/usr/bin/env node
import Redis from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';
import knexFactory from 'knex';

const nodes = process.env.LOCK_NODES.split(',').map((url) => {
  const client = new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 500 });
  client.on('error', (err) => console.error(`[${url}]`, err.message));
  return client;
});

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 3_000,
});
redlock.on('error', (err) => {
  if (err instanceof ResourceLockedError) return;
  console.error('[redlock]', err.message);
});

const knex = knexFactory({ client: 'pg', connection: process.env.DATABASE_URL, acquireConnectionTimeout: 5_000 });

function plan(shards, workers) {
  const load = new Map(workers.map((w) => [w.id, 0]));
  const moves = [];
  for (const s of [...shards].sort((a, b) => b.weight - a.weight)) {
    const [target] = [...load.entries()].sort((a, b) => a[1] - b[1])[0];
    load.set(target, load.get(target) + s.weight);
    if (s.owner !== target) moves.push({ id: s.id, from: s.owner, to: target });
  }
  return moves;
}

async function rebalance(signal) {
  const { generation } = await knex('rebalance_state').first('generation').where({ id: 1 }).timeout(3_000);
  const shards = await knex('shards').select('id', 'owner', 'weight').timeout(3_000);
  const workers = await knex('workers').select('id').where({ healthy: true }).timeout(3_000);
  if (workers.length === 0) throw new Error('no healthy workers');

  const moves = plan(shards, workers);
  if (moves.length === 0) return 0;
  if (signal.aborted) throw signal.error;

  await knex.transaction(async (trx) => {
    const bumped = await trx('rebalance_state')
      .where({ id: 1, generation })
      .update({ generation: trx.raw('generation + 1'), changed_at: trx.fn.now() })
      .timeout(3_000);
    if (bumped !== 1) throw new Error(`generation ${generation} is no longer current`);

    for (const m of moves) {
      if (signal.aborted) throw signal.error;
      await trx('shards').where({ id: m.id, owner: m.from }).update({ owner: m.to }).timeout(3_000);
    }
    if (signal.aborted) throw signal.error;
  });
  return moves.length;
}

try {
  const moved = await redlock.using(['locks:shard-rebalance'], 10_000, rebalance);
  console.log(`rebalance finished, ${moved} shard(s) moved`);
} catch (err) {
  console.error('rebalance:', err.message);
  process.exitCode = 1;
} finally {
  nodes.forEach((n) => n.disconnect());
  await knex.destroy();
}
