import { Redis } from '@upstash/redis';

// Called by the platform's scheduler at 06:00. It promises "at least once" only, and sometimes
// two regions fire. A day's statements must go out once: the first call claims the day and
// the claim is kept (three days), also after a failure, which is then handled by hand.

const CLAIM_SECONDS = 3 * 24 * 3600;
const RUN_LIMIT_MS = 10 * 60_000;

export interface Statements {
  due(day: string): Promise<string[]>;
  send(accountId: string, day: string, signal: AbortSignal): Promise<void>;
}

function redisFromEnv() {
  return new Redis({
    url: process.env.KV_REST_API_URL!,
    token: process.env.KV_REST_API_TOKEN!,
  });
}

async function claim(redis: Redis, day: string, runId: string): Promise<boolean> {
  const key = `statements:${day}`;
  const set = await redis.set(key, runId, { nx: true, ex: CLAIM_SECONDS });
  if (set === 'OK') return true;
  // The HTTP client repeats a request whose answer was lost, so a "no" can be our own claim.
  return (await redis.get<string>(key)) === runId;
}

export function statementsCron(statements: Statements, redis: Redis = redisFromEnv()) {
  return async function GET(req: Request): Promise<Response> {
    if (req.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
      return new Response('unauthorized', { status: 401 });
    }
    const day = new Date().toISOString().slice(0, 10);
    const runId = `run-${crypto.randomUUID()}`;

    let mine: boolean;
    try {
      mine = await claim(redis, day, runId);
    } catch (err) {
      console.error('could not claim', day, err);
      return Response.json({ day, error: 'redis unavailable' }, { status: 503 });
    }
    if (!mine) return Response.json({ day, skipped: true });

    const signal = AbortSignal.timeout(RUN_LIMIT_MS);
    let sent = 0;
    const failed: string[] = [];
    for (const account of await statements.due(day)) {
      if (signal.aborted) {
        failed.push(account);
        continue;
      }
      try {
        await statements.send(account, day, signal);
        sent++;
      } catch (err) {
        console.error('statement', account, err);
        failed.push(account);
      }
    }
    return Response.json({ day, sent, failed }, { status: failed.length ? 207 : 200 });
  };
}
