// Small booking API. From the blog post "Never sell a seat twice with Node and Redis".
import express from 'express';
import pg from 'pg';
import { createClient } from 'redis';

const app = express();
app.use(express.json());

const db = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 2000,
});

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const LOCK_MS = 10_000;

app.get('/shows/:show/seats', async (req, res, next) => {
  try {
    const { rows } = await db.query('SELECT seat, status FROM seats WHERE show_id = $1', [req.params.show]);
    res.json(rows);
  } catch (err) {
    next(err);
  }
});

app.post('/shows/:show/seats/:seat/book', async (req, res, next) => {
  const { show, seat } = req.params;
  const { customer } = req.body;
  if (!customer) return res.status(400).json({ error: 'customer is missing' });

  const lockKey = `seat-lock:${show}:${seat}`;
  try {
    // NX = only if nobody else is booking this seat right now
    const locked = await redis.set(lockKey, customer, { NX: true, PX: LOCK_MS });
    if (!locked) {
      return res.status(409).json({ error: 'Somebody is booking this seat, try again' });
    }

    const { rows } = await db.query(
      'SELECT status, price FROM seats WHERE show_id = $1 AND seat = $2',
      [show, seat],
    );
    if (rows.length === 0) return res.status(404).json({ error: 'No such seat' });
    if (rows[0].status !== 'free') return res.status(410).json({ error: 'Seat is sold' });

    await db.query('INSERT INTO bookings (show_id, seat, customer, price) VALUES ($1, $2, $3, $4)', [
      show,
      seat,
      customer,
      rows[0].price,
    ]);
    await db.query("UPDATE seats SET status = 'sold' WHERE show_id = $1 AND seat = $2", [show, seat]);

    return res.status(201).json({ show, seat, customer, price: rows[0].price });
  } catch (err) {
    return next(err);
  } finally {
    // always clean up, whichever way we got out of here
    await redis.del(lockKey).catch((err) => console.warn('unlock failed', err.message));
  }
});

app.use((err, req, res, next) => {
  console.error(err);
  res.status(500).json({ error: 'Something went wrong' });
});

const port = process.env.PORT || 3000;
app.listen(port, () => console.log(`listening on ${port}`));
