// Two-way sync is triggered by push notifications, by the user's "refresh" button and
// by the hourly sweep, so the same calendar is often asked for twice at once.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end`;

const LOCK_TTL_MS = 60_000;
const SYNC_BUDGET_MS = 20_000; // all requests of one sync together

export class CalendarBusyError extends Error {
  constructor(key) {
    super(`could not get ${key} in time`);
    this.name = 'CalendarBusyError';
  }
}

/**
 * @param {import('redis').RedisClientType} client
 * @param {string} key
 * @param {(signal: AbortSignal) => Promise<any>} fn must give up when the signal fires
 */
export async function withLock(client, key, fn, { waitMs = 5_000 } = {}) {
  const token = randomUUID();
  const giveUpAt = Date.now() + waitMs;

  for (;;) {
    const reply = await client.set(key, token, { NX: true, PX: LOCK_TTL_MS });
    if (reply === 'OK') break;
    if (Date.now() >= giveUpAt) throw new CalendarBusyError(key);
    await sleep(100 + Math.random() * 150);
  }

  try {
    return await fn(AbortSignal.timeout(SYNC_BUDGET_MS));
  } finally {
    await client.eval(UNLOCK, { keys: [key], arguments: [token] }).catch((err) => {
      console.error('calendar unlock failed', { key, err: err.message });
    });
  }
}

async function getJson(url, init) {
  const res = await fetch(url, init);
  if (!res.ok) throw new Error(`${init?.method ?? 'GET'} ${url}: ${res.status}`);
  return { body: await res.json(), etag: res.headers.get('etag') };
}

export async function syncCalendar(client, account, calendarId) {
  const { providerUrl, storeUrl, accessToken } = account;

  return withLock(client, `calsync:${calendarId}`, async (signal) => {
    const mine = await getJson(`${storeUrl}/calendars/${calendarId}`, { signal });

    const events = new Map(mine.body.events.map((e) => [e.uid, e]));
    let page = '';
    do {
      const { body } = await getJson(
        `${providerUrl}/calendars/${calendarId}/changes?since=${mine.body.syncToken}&page=${page}`,
        { signal, headers: { authorization: `Bearer ${accessToken}` } },
      );
      for (const change of body.changes) {
        if (change.deleted) events.delete(change.uid);
        else events.set(change.uid, change.event);
      }
      page = body.nextPage ?? '';
      if (body.syncToken) mine.body.syncToken = body.syncToken;
    } while (page);

    // The store answers 412 when the calendar has changed since we read it.
    const res = await fetch(`${storeUrl}/calendars/${calendarId}`, {
      method: 'PUT',
      signal,
      headers: { 'content-type': 'application/json', 'if-match': mine.etag },
      body: JSON.stringify({ syncToken: mine.body.syncToken, events: [...events.values()] }),
    });
    if (!res.ok) throw new Error(`saving calendar ${calendarId}: ${res.status}`);
    return events.size;
  });
}
