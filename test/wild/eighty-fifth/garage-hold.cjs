const express = require('express');
const Redis = require('ioredis');
const { randomUUID } = require('node:crypto');
const db = require('./db'); // pg pool
// bookings: unique (garage_id, bay, day), unique (hold_token)

const redis = new Redis(process.env.REDIS_URL);
const app = express();
app.use(express.json());

const HOLD_MS = 10 * 60 * 1000;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const STILL_MINE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < 30000 then redis.call('pexpire', KEYS[1], 30000) end
return 1`;

function holdKey(req) {
  const { garage, bay, day } = req.params;
  if (!/^\d+$/.test(garage) || !/^\d+$/.test(bay) || !/^\d{4}-\d{2}-\d{2}$/.test(day)) return null;
  return `hold:${Number(garage)}:${Number(bay)}:${day}`;
}

const drop = (key, token) =>
  redis.eval(DROP, 1, key, token).catch((e) => console.warn('hold stays until it expires', key, e.message));

app.post('/garages/:garage/bays/:bay/:day/hold', async (req, res, next) => {
  const key = holdKey(req);
  if (!key) return res.status(400).json({ error: 'bad garage, bay or day' });
  const { garage, bay, day } = req.params;
  const token = randomUUID();
  try {
    const ok = await redis.set(key, token, 'PX', HOLD_MS, 'NX');
    if (ok !== 'OK' && (await redis.get(key)) !== token) return res.status(409).json({ error: 'someone is booking this bay' });

    const sold = await db.query(
      'select 1 from bookings where garage_id = $1 and bay = $2 and day = $3',
      [Number(garage), Number(bay), day],
    );
    if (sold.rowCount) {
      await drop(key, token);
      return res.status(409).json({ error: 'already booked' });
    }
    res.status(201).json({ token, holdSeconds: HOLD_MS / 1000 });
  } catch (err) {
    drop(key, token);
    next(err);
  }
});

app.post('/garages/:garage/bays/:bay/:day/confirm', async (req, res, next) => {
  const key = holdKey(req);
  if (!key) return res.status(400).json({ error: 'bad garage, bay or day' });
  const { garage, bay, day } = req.params;
  const { token, plate } = req.body ?? {};
  if (typeof token !== 'string' || typeof plate !== 'string') {
    return res.status(400).json({ error: 'token and plate needed' });
  }
  try {
    // a repeated click after a lost reply gets the same booking
    const mine = () =>
      db.query('select id from bookings where hold_token = $1 and garage_id = $2 and bay = $3 and day = $4', [
        token, Number(garage), Number(bay), day,
      ]);
    const before = await mine();
    if (before.rowCount) return res.json({ booking: before.rows[0].id });

    if ((await redis.eval(STILL_MINE, 1, key, token)) !== 1) {
      return res.status(410).json({ error: 'your hold has run out' });
    }
    const made = await db.query(
      `insert into bookings (garage_id, bay, day, plate, hold_token)
       values ($1, $2, $3, $4, $5) on conflict do nothing returning id`,
      [Number(garage), Number(bay), day, plate, token],
    );
    if (!made.rowCount) {
      const twin = await mine();
      if (twin.rowCount) return res.json({ booking: twin.rows[0].id });
      return res.status(409).json({ error: 'already booked' });
    }
    await drop(key, token);
    res.status(201).json({ booking: made.rows[0].id });
  } catch (err) {
    next(err);
  }
});

app.delete('/garages/:garage/bays/:bay/:day/hold', async (req, res) => {
  const key = holdKey(req);
  const token = req.get('x-hold-token');
  if (key && token) await drop(key, token);
  res.sendStatus(204);
});

app.listen(process.env.PORT ?? 3000);
