import express from 'express';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL);
const app = express();
app.use(express.json());

const KEEP_SECONDS = 24 * 60 * 60;

async function captureAtProvider(paymentId, cents) {
  const res = await fetch(`https://psp.internal/payments/${paymentId}/capture`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ cents }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`provider answered ${res.status}`);
  return res.json();
}

app.post('/payments/:id/capture', async (req, res) => {
  const requestKey = req.get('idempotency-key');
  if (!requestKey) return res.status(400).json({ error: 'Idempotency-Key is required' });

  const key = `capture:${req.params.id}:${requestKey}`;
  const first = await redis.set(key, '1', 'EX', KEEP_SECONDS, 'NX');
  if (first === null) {
    return res.status(200).json({ id: req.params.id, status: 'captured' });
  }

  try {
    const result = await captureAtProvider(req.params.id, req.body.cents);
    return res.status(200).json({ id: req.params.id, status: 'captured', reference: result.reference });
  } catch (err) {
    console.error('capture of %s failed', req.params.id, err);
    return res.status(502).json({ error: 'capture failed, please retry' });
  }
});

app.listen(Number(process.env.PORT ?? 3000));
