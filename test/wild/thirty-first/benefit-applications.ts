import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createClient } from 'redis';

export interface Application {
  nationalId: string;
  scheme: string;
  householdSize: number;
}

export interface ApplicationRegister {
  /**
   * Inserts the application. `requestKey` has a unique index: a second call with the same key
   * returns the case number of the first. Rejects, with nothing written, once the signal fires.
   */
  file(a: Application, requestKey: string, signal: AbortSignal): Promise<{ caseNumber: string }>;
}

type Client = ReturnType<typeof createClient>;

type Entry =
  | { state: 'pending'; owner: string; fingerprint: string }
  | { state: 'done'; fingerprint: string; status: number; body: string };

const PENDING_MS = 90_000;
const FILE_TIMEOUT_MS = 15_000;
const KEEP_MS = 48 * 3600 * 1000;

const SWAP = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`;
const CLEAR = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

function send(res: ServerResponse, status: number, body: string, headers: Record<string, string> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
}

const problem = (title: string) => JSON.stringify({ title });

async function readBody(req: IncomingMessage, limit = 64 * 1024): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req) {
    size += chunk.length;
    if (size > limit) throw new RangeError('body too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(raw: string): Application {
  const a = JSON.parse(raw);
  if (typeof a?.nationalId !== 'string' || typeof a.scheme !== 'string' || !Number.isInteger(a.householdSize)) {
    throw new TypeError('incomplete application');
  }
  return { nationalId: a.nationalId, scheme: a.scheme, householdSize: a.householdSize };
}

export function applicationHandler(redis: Client, register: ApplicationRegister) {
  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const requestKey = req.headers['idempotency-key'];
    if (typeof requestKey !== 'string' || requestKey.length < 16) {
      return send(res, 400, problem('Idempotency-Key header required'));
    }

    let raw: string;
    let application: Application;
    try {
      raw = await readBody(req);
      application = parse(raw);
    } catch (err) {
      return send(res, 422, problem((err as Error).message));
    }

    const key = `benefits:idem:${requestKey}`;
    const fingerprint = createHash('sha256').update(raw).digest('hex');
    const pending = JSON.stringify({ state: 'pending', owner: randomUUID(), fingerprint } satisfies Entry);

    const claimed = await redis.set(key, pending, { NX: true, PX: PENDING_MS });
    if (claimed !== 'OK') {
      const seen = await redis.get(key);
      const entry = seen === null ? null : (JSON.parse(seen) as Entry);
      if (entry && entry.fingerprint !== fingerprint) {
        return send(res, 422, problem('Idempotency-Key was used for another application'));
      }
      if (entry?.state === 'done') return send(res, entry.status, entry.body, { 'idempotent-replay': 'true' });
      return send(res, 409, problem('application is being processed'), { 'retry-after': '5' });
    }

    let body: string;
    try {
      const filed = await register.file(application, requestKey, AbortSignal.timeout(FILE_TIMEOUT_MS));
      body = JSON.stringify({ caseNumber: filed.caseNumber });
    } catch (err) {
      await redis.eval(CLEAR, { keys: [key], arguments: [pending] }).catch((e) => console.error('[benefits] clear', e));
      console.error(`[benefits] filing ${requestKey} failed`, err);
      return send(res, 503, problem('please send the application again'), { 'retry-after': '10' });
    }

    const done = JSON.stringify({ state: 'done', fingerprint, status: 201, body } satisfies Entry);
    // Without this entry a repeat merely asks the register, which knows the request key.
    await redis
      .eval(SWAP, { keys: [key], arguments: [pending, done, String(KEEP_MS)] })
      .catch((e) => console.error('[benefits] keep response', e));
    send(res, 201, body);
  };
}

export async function serve(register: ApplicationRegister, port = Number(process.env.PORT ?? 8080)) {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (e) => console.error('[benefits] redis', e.message));
  await redis.connect();
  const handle = applicationHandler(redis, register);
  return createServer((req, res) => {
    handle(req, res).catch((err) => {
      console.error('[benefits]', err);
      if (!res.headersSent) send(res, 500, problem('internal error'));
      else res.destroy();
    });
  }).listen(port);
}
