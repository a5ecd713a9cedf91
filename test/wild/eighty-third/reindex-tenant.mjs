import Redis from 'ioredis';
import Redlock from 'redlock5';
import { Client as Elastic } from '@elastic/elasticsearch';
import pg from 'pg';

const redlock = new Redlock(
  process.env.LOCK_NODES.split(',').map((u) => new Redis(u)),
  { retryCount: 3, retryDelay: 500 },
);
redlock.on('error', (e) => console.debug('redlock', e.message));

const es = new Elastic({ node: process.env.ES_URL });
const pool = new pg.Pool({ max: 4 });
const TTL = 60_000;

async function* documents(tenant) {
  let last = 0;
  for (;;) {
    const { rows } = await pool.query(
      'select id, title, body from documents where tenant_id = $1 and id > $2 order by id limit 1000',
      [tenant, last],
    );
    if (rows.length === 0) return;
    last = rows.at(-1).id;
    yield rows;
  }
}

// Takes 20-40 minutes for the large tenants.
export async function reindex(tenant) {
  const alias = `docs-${tenant}`;
  const fresh = `${alias}-${Date.now()}`;
  const lock = await redlock.acquire([`reindex:${tenant}`], TTL);

  const timer = setInterval(() => {
    lock.extend(TTL).catch((err) => console.warn(`extend ${tenant}: ${err.message}`));
  }, TTL / 3);

  try {
    await es.indices.create({ index: fresh });
    for await (const rows of documents(tenant)) {
      await es.bulk({
        operations: rows.flatMap((r) => [{ index: { _index: fresh, _id: String(r.id) } }, { title: r.title, body: r.body }]),
      });
    }
    const old = Object.keys(await es.indices.getAlias({ name: alias }, { ignore: [404] })).filter((n) => n.startsWith(alias));
    await es.indices.updateAliases({
      actions: [
        ...old.map((index) => ({ remove: { index, alias } })),
        { add: { index: fresh, alias } },
      ],
    });
    for (const index of old) await es.indices.delete({ index });
  } finally {
    clearInterval(timer);
    await lock.release().catch((err) => console.warn(`release ${tenant}: ${err.message}`));
  }
}
