const fastify = require('fastify')({ logger: true });
const Redis = require('ioredis');
const Stripe = require('stripe');
const knex = require('knex')({ client: 'pg', connection: process.env.DATABASE_URL, acquireConnectionTimeout: 3000 });
const { randomUUID } = require('node:crypto');

const stripe = new Stripe(process.env.STRIPE_KEY);
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 1000, maxRetriesPerRequest: 1 });
redis.on('error', (e) => fastify.log.warn(e.message));

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

fastify.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_req, body, done) => done(null, body));

// stripe_events.id and donations.payment_intent are primary keys
async function record(event) {
  const pi = event.data.object;
  return knex.transaction(async (trx) => {
    await trx.raw('set local statement_timeout = 5000');
    const fresh = await trx('stripe_events').insert({ id: event.id }).onConflict('id').ignore().returning('id');
    if (!fresh.length) return false;

    const added = await trx('donations')
      .insert({
        payment_intent: pi.id,
        campaign_id: pi.metadata.campaign,
        donor_email: pi.receipt_email,
        cents: pi.amount_received,
      })
      .onConflict('payment_intent')
      .ignore()
      .returning('payment_intent');
    if (!added.length) return false;

    await trx('campaigns').where({ id: pi.metadata.campaign }).increment('raised_cents', pi.amount_received);
    // the mail worker picks these up
    await trx('outbox').insert({ kind: 'thank-you', ref: pi.id });
    return true;
  });
}

fastify.post('/stripe', async (req, reply) => {
  let event;
  try {
    event = stripe.webhooks.constructEvent(req.body, req.headers['stripe-signature'], process.env.STRIPE_WHSEC);
  } catch {
    return reply.code(400).send('bad signature');
  }
  if (event.type !== 'payment_intent.succeeded') return { ignored: true };

  const key = `stripe:event:${event.id}`;
  const token = randomUUID();
  try {
    const got = await redis.set(key, token, 'PX', 30_000, 'NX');
    // Stripe delivers again later
    if (got !== 'OK') return reply.code(409).send('being handled');
  } catch (err) {
    req.log.warn({ err }, 'no redis, relying on the tables');
  }

  try {
    const recorded = await record(event);
    return { recorded };
  } finally {
    await redis.eval(UNLOCK, 1, key, token).catch((err) => req.log.warn({ err }, 'event lock left to expire'));
  }
});

fastify.listen({ port: Number(process.env.PORT ?? 8080), host: '0.0.0.0' });
