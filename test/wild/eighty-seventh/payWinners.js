// credits all winning tickets of a draw to the players' wallets
const cron = require('node-cron');
const Redis = require('ioredis');
const { default: Redlock } = require('redlock5');
const db = require('./db'); // pg-promise

const redis = new Redis({ host: process.env.REDIS_HOST, maxRetriesPerRequest: 2, commandTimeout: 2000 });
redis.on('error', (e) => console.log('redis', e.message));

const redlock = new Redlock([redis], { retryCount: 0, automaticExtensionThreshold: 5000 });
redlock.on('error', (e) => console.log('redlock', e.message));

async function unpaid(drawId) {
  return db.any(
    'SELECT id, player_id, prize_cents FROM tickets WHERE draw_id = $1 AND prize_cents > 0 AND paid_at IS NULL ORDER BY id',
    [drawId],
  );
}

// wallet + ticket in one tx, so a crash can't leave half of it
async function credit(t) {
  await db.tx(async (x) => {
    await x.none('UPDATE wallets SET cents = cents + $1 WHERE player_id = $2', [t.prize_cents, t.player_id]);
    await x.none('UPDATE tickets SET paid_at = now() WHERE id = $1', [t.id]);
    await x.none('INSERT INTO wallet_log (player_id, ticket_id, cents) VALUES ($1, $2, $3)', [
      t.player_id,
      t.id,
      t.prize_cents,
    ]);
  });
}

async function payDraw(drawId) {
  await redlock.using([`pay:${drawId}`], 20000, async (signal) => {
    const list = await unpaid(drawId);
    console.log(`draw ${drawId}: ${list.length} tickets to pay`);

    let n = 0;
    for (const t of list) {
      await credit(t);
      n++;
      if (n % 1000 === 0) console.log(`draw ${drawId}: ${n}/${list.length}`);
    }

    if (signal.aborted) throw signal.error;
    await db.none(
      `UPDATE draws SET settled_at = now(),
         settled_cents = (SELECT coalesce(sum(prize_cents), 0) FROM tickets WHERE draw_id = $1 AND paid_at IS NOT NULL)
       WHERE id = $1`,
      [drawId],
    );
    console.log(`draw ${drawId} settled, ${n} tickets paid in this run`);
  });
}

async function tick() {
  const open = await db.any('SELECT id FROM draws WHERE drawn_at IS NOT NULL AND settled_at IS NULL');
  for (const d of open) {
    try {
      await payDraw(d.id);
    } catch (e) {
      console.log(`draw ${d.id} not settled now:`, e.message);
    }
  }
}

// all pods, every minute; a big draw has 40k winning tickets = ~10 min
cron.schedule('* * * * *', () => tick().catch((e) => console.log('tick', e)));
