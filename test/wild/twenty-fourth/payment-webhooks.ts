import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

interface Request {
  headers: Record<string, string | undefined>;
  rawBody: string;
  log: { info(o: object, m: string): void; error(o: object, m: string): void };
}
interface Reply {
  code(n: number): Reply;
  send(body?: unknown): Reply;
}
interface App {
  post(path: string, handler: (req: Request, reply: Reply) => Promise<unknown>): void;
}
interface Options {
  redis: Client;
  secret: string;
  apiBase: string;
  apiKey: string;
}

const CLAIM_SECONDS = 60;

// Credit and bookkeeping in one go, and only while the claim is still ours.
// KEEPTTL: the entry goes on living under the expiry it was created with, no keys pile up.
const SETTLE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HINCRBY', KEYS[2], 'cents', ARGV[2])
redis.call('SET', KEYS[1], 'done', 'KEEPTTL')
return 1`;

const ABANDON = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

function signed(body: string, header: string | undefined, secret: string): boolean {
  const want = createHmac("sha256", secret).update(body).digest();
  const got = Buffer.from(header ?? "", "hex");
  return got.length === want.length && timingSafeEqual(got, want);
}

/** The provider delivers at least once and retries for three days until it sees a 2xx. */
export default function paymentWebhooks(app: App, opts: Options) {
  const { redis } = opts;

  app.post("/webhooks/payments", async (req, reply) => {
    if (!signed(req.rawBody, req.headers["x-signature"], opts.secret)) return reply.code(401).send();

    const event = JSON.parse(req.rawBody) as { id: string; type: string; paymentId: string };
    if (event.type !== "payment.succeeded") return reply.code(204).send();

    const key = `webhook:event:${event.id}`;
    const claim = `processing:${randomUUID()}`;

    const claimed = await redis.set(key, claim, { NX: true, EX: CLAIM_SECONDS });
    if (claimed !== "OK") {
      const state = await redis.get(key);
      // someone else is on it: let the provider come back for the outcome
      return state === "done" ? reply.code(200).send({ duplicate: true }) : reply.code(425).send();
    }

    try {
      // never trust amounts in the hook, ask the API
      const res = await fetch(`${opts.apiBase}/payments/${encodeURIComponent(event.paymentId)}`, {
        headers: { authorization: `Bearer ${opts.apiKey}` },
        signal: AbortSignal.timeout(10_000),
      });
      if (!res.ok) throw new Error(`payment lookup: ${res.status}`);
      const payment = (await res.json()) as { accountId: string; cents: number };

      const settled = await redis.eval(SETTLE, {
        keys: [key, `account:${payment.accountId}`],
        arguments: [claim, String(payment.cents)],
      });
      if (settled !== 1) throw new Error("claim expired before settling");

      req.log.info({ event: event.id, ...payment }, "payment credited");
      return reply.code(200).send();
    } catch (err) {
      await redis.eval(ABANDON, { keys: [key], arguments: [claim] }).catch(() => {});
      req.log.error({ event: event.id, err }, "webhook failed");
      return reply.code(500).send();
    }
  });
}
