import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const MAX_RENDERERS = Number(process.env.PDF_MAX_RENDERERS ?? 3);
const COUNTER = 'pdf:rendering';

export const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error(err));

let connection;
const connect = () => (connection ??= client.connect());

/**
 * Chrome is heavy, so there are at most MAX_RENDERERS of them in the whole cluster.
 * Returns a function that gives the slot back, or null when all of them are taken.
 */
export async function takeSlot() {
  await connect();
  const count = await client.incr(COUNTER);
  if (count > MAX_RENDERERS) {
    await client.decr(COUNTER);
    return null;
  }

  let returned = false;
  return async () => {
    if (returned) return;
    returned = true;
    await client.decr(COUNTER);
  };
}

export async function waitForSlot({ timeout = 60_000 } = {}) {
  const giveUp = performance.now() + timeout;
  while (performance.now() < giveUp) {
    const giveBack = await takeSlot();
    if (giveBack) return giveBack;
    await sleep(300 + Math.random() * 400);
  }
  throw new Error('all PDF renderers are busy');
}

/** Queue worker: one call per document. */
export async function renderPdf(document, render) {
  const giveBack = await waitForSlot();
  try {
    return await render(document);
  } finally {
    await giveBack();
  }
}
