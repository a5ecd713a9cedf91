'use strict';

const express = require('express');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');
const app = express();
app.use(express.json());

/**
 * Takes units of a drug out of the central stock for a ward.
 * The stock of one drug is changed by one request at a time.
 */
app.post('/wards/:ward/dispense', async (req, res) => {
  const { drugId, units, prescriptionId } = req.body;
  if (!drugId || !prescriptionId || !Number.isInteger(units) || units <= 0) {
    return res.status(400).json({ error: 'drugId, prescriptionId and units are required' });
  }

  const lockKey = `lock:stock:${drugId}`;
  const stockKey = `stock:${drugId}`;

  try {
    const locked = await redis.set(lockKey, '1', 'EX', 15, 'NX');
    if (!locked) {
      return res.status(409).json({ error: 'stock is being updated, try again' });
    }

    if (await redis.sismember('prescriptions:dispensed', prescriptionId)) {
      return res.status(200).json({ status: 'already dispensed' });
    }

    const stock = Number((await redis.get(stockKey)) || 0);
    if (stock < units) {
      return res.status(422).json({ error: 'not enough in stock', stock });
    }

    await redis
      .multi()
      .set(stockKey, stock - units)
      .sadd('prescriptions:dispensed', prescriptionId)
      .rpush(
        `ward:${req.params.ward}:deliveries`,
        JSON.stringify({ drugId, units, prescriptionId, at: Date.now() }),
      )
      .exec();

    return res.status(201).json({ status: 'dispensed', left: stock - units });
  } catch (err) {
    console.error('dispense failed', err);
    return res.status(500).json({ error: 'internal error' });
  } finally {
    await redis.del(lockKey);
  }
});

app.get('/stock/:drugId', async (req, res) => {
  const stock = await redis.get(`stock:${req.params.drugId}`);
  res.json({ drugId: req.params.drugId, stock: Number(stock || 0) });
});

app.listen(process.env.PORT || 3000, () => console.log('dispensing service is up'));
