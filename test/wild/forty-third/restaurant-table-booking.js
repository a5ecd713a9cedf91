// Fastify plugin: book a table. Used redlock because of the blog post in our wiki :)
const fp = require('fastify-plugin');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL);

const redlock = new Redlock([redis], {
  retryCount: 10, // 10 x 200ms = about 2 seconds
  retryDelay: 200,
  retryJitter: 100,
});
redlock.on('clientError', (err) => console.error('redis problem', err));

// everything has a timeout so a booking can never take 30 seconds
const db = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3000,
  statement_timeout: 3000,
  query_timeout: 3000,
});

const LOCK_TTL = 30000;

async function bookings(fastify) {
  fastify.post('/restaurants/:id/bookings', async (request, reply) => {
    const restaurantId = request.params.id;
    const { date, slot, guests, name } = request.body;

    let lock;
    try {
      lock = await redlock.lock(`locks:booking:${restaurantId}:${date}:${slot}`, LOCK_TTL);
    } catch (err) {
      if (err.name === 'LockError') {
        return reply.code(423).send({ message: 'Somebody is booking this slot, please try again' });
      }
      throw err;
    }

    try {
      const seats = await db.query('SELECT seats FROM restaurants WHERE id = $1', [restaurantId]);
      if (seats.rows.length === 0) {
        return reply.code(404).send({ message: 'Restaurant not found' });
      }

      const taken = await db.query(
        'SELECT COALESCE(SUM(guests), 0)::int AS total FROM bookings WHERE restaurant_id = $1 AND date = $2 AND slot = $3',
        [restaurantId, date, slot]
      );
      if (taken.rows[0].total + guests > seats.rows[0].seats) {
        return reply.code(409).send({ message: 'Sorry, this slot is full' });
      }

      const created = await db.query(
        'INSERT INTO bookings (restaurant_id, date, slot, guests, name) VALUES ($1, $2, $3, $4, $5) RETURNING id',
        [restaurantId, date, slot, guests, name]
      );
      return reply.code(201).send({ id: created.rows[0].id });
    } finally {
      await lock.unlock().catch((err) => {
        // will expire by itself
        console.warn('unlock failed', err.message);
      });
    }
  });
}

module.exports = fp(bookings);
