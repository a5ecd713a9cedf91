import axios from 'axios';
import express from 'express';
import Redis from 'ioredis';
import { nanoid } from 'nanoid';
import pino from 'pino';

const log = pino({ name: 'courier-labels' });
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000 });

// The carrier answers 429 and blocks the account for ten minutes when more
// than four label requests of one account are open at a time.
const LIMIT = Number(process.env.COURIER_MAX_OPEN ?? 4);
const LEASE_MS = 40_000;
const CALL_MS = 15_000;
const WAIT_MS = 20_000;

const LIBRARY = `#!lua name=courier_slots
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

redis.register_function('courier_take', function(keys, args)
  local now, lease = now_ms(), tonumber(args[3])
  redis.call('ZREMRANGEBYSCORE', keys[1], '-inf', now)
  if redis.call('ZCARD', keys[1]) >= tonumber(args[2]) then
    return 0
  end
  redis.call('ZADD', keys[1], now + lease, args[1])
  redis.call('PEXPIRE', keys[1], lease)
  return 1
end)

redis.register_function('courier_give', function(keys, args)
  return redis.call('ZREM', keys[1], args[1])
end)
`;

await redis.call('FUNCTION', 'LOAD', 'REPLACE', LIBRARY);

const sleep = (ms) => new Promise((r) => setTimeout(r, ms));

class NoSlotError extends Error {
  constructor(account) {
    super(`no free courier slot for ${account}`);
    this.name = 'NoSlotError';
  }
}

async function withSlot(account, fn) {
  const key = `courier:open:${account}`;
  const ticket = nanoid();
  const until = Date.now() + WAIT_MS;

  while ((await redis.call('FCALL', 'courier_take', 1, key, ticket, LIMIT, LEASE_MS)) !== 1) {
    if (Date.now() > until) throw new NoSlotError(account);
    await sleep(100 + Math.random() * 200);
  }
  try {
    return await fn();
  } finally {
    redis.call('FCALL', 'courier_give', 1, key, ticket).catch((err) => {
      log.warn({ err, account }, 'slot not returned, lapses with its lease');
    });
  }
}

async function requestLabel(account, shipment) {
  const { data } = await axios.post(`${process.env.COURIER_URL}/v2/labels`, shipment, {
    headers: { 'X-Account': account, 'Idempotency-Key': shipment.id },
    timeout: CALL_MS,
    // also covers DNS and connecting
    signal: AbortSignal.timeout(CALL_MS),
    maxRedirects: 0,
  });
  return data;
}

const app = express();
app.use(express.json());

app.post('/accounts/:account/labels', async (req, res) => {
  const { account } = req.params;
  try {
    const label = await withSlot(account, () => requestLabel(account, req.body));
    res.status(201).json({ trackingNo: label.trackingNo, pdf: label.pdfUrl });
  } catch (err) {
    if (err instanceof NoSlotError) {
      res.set('Retry-After', '10').status(503).json({ error: 'courier_busy' });
      return;
    }
    log.error({ err, account }, 'label failed');
    res.status(502).json({ error: 'courier_failed' });
  }
});

app.listen(Number(process.env.PORT ?? 3000));
