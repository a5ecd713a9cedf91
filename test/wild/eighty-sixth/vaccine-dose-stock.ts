import { createClient, WatchError } from 'redis';
import Fastify, { type FastifyInstance } from 'fastify';
import { randomUUID } from 'node:crypto';

type Client = ReturnType<typeof createClient>;

export class OutOfDosesError extends Error {}
export class ContentionError extends Error {}

export interface DoseStock {
  reserve(clinicId: string, vaccine: string, doses: number): Promise<string>;
  giveBack(clinicId: string, vaccine: string, reservationId: string): Promise<boolean>;
}

const GIVE_BACK = `
local doses = redis.call('HGET', KEYS[2], ARGV[1])
if not doses then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('INCRBY', KEYS[1], doses)
return 1`;

export class RedisDoseStock implements DoseStock {
  private static readonly MAX_ATTEMPTS = 8;

  constructor(private readonly client: Client) {}

  async reserve(clinicId: string, vaccine: string, doses: number): Promise<string> {
    const [stockKey, reservationsKey] = this.keys(clinicId, vaccine);
    const reservationId = randomUUID();

    for (let attempt = 0; attempt < RedisDoseStock.MAX_ATTEMPTS; attempt += 1) {
      await this.client.watch(stockKey);
      const left = Number((await this.client.get(stockKey)) ?? 0);
      if (left < doses) {
        await this.client.unwatch();
        throw new OutOfDosesError(`${left} of ${doses} doses of ${vaccine} left at ${clinicId}`);
      }
      try {
        await this.client
          .multi()
          .decrBy(stockKey, doses)
          .hSet(reservationsKey, reservationId, String(doses))
          .exec();
        return reservationId;
      } catch (err) {
        if (!(err instanceof WatchError)) throw err;
      }
    }
    throw new ContentionError(`${vaccine} at ${clinicId}`);
  }

  async giveBack(clinicId: string, vaccine: string, reservationId: string): Promise<boolean> {
    const keys = this.keys(clinicId, vaccine);
    return (await this.client.eval(GIVE_BACK, { keys, arguments: [reservationId] })) === 1;
  }

  private keys(clinicId: string, vaccine: string): [string, string] {
    const base = `{stock:${clinicId}:${vaccine}}`;
    return [`${base}:doses`, `${base}:reservations`];
  }
}

interface ReserveRoute {
  Params: { clinicId: string; vaccine: string };
  Body: { doses: number };
}

const bodySchema = {
  type: 'object',
  required: ['doses'],
  properties: { doses: { type: 'integer', minimum: 1, maximum: 20 } },
} as const;

export function buildApp(stock: DoseStock): FastifyInstance {
  const app = Fastify({ logger: true });
  app.post<ReserveRoute>(
    '/clinics/:clinicId/vaccines/:vaccine/reservations',
    { schema: { body: bodySchema } },
    async (req, reply) => {
      const { clinicId, vaccine } = req.params;
      try {
        const id = await stock.reserve(clinicId, vaccine, req.body.doses);
        return reply.code(201).send({ id });
      } catch (err) {
        if (err instanceof OutOfDosesError) return reply.code(409).send({ error: err.message });
        if (err instanceof ContentionError) return reply.code(503).header('retry-after', '1').send();
        throw err;
      }
    },
  );
  app.delete<{ Params: { clinicId: string; vaccine: string; id: string } }>(
    '/clinics/:clinicId/vaccines/:vaccine/reservations/:id',
    async (req, reply) => {
      const { clinicId, vaccine, id } = req.params;
      return reply.code((await stock.giveBack(clinicId, vaccine, id)) ? 204 : 404).send();
    },
  );
  return app;
}

export async function bootstrap(): Promise<FastifyInstance> {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.error('redis', err));
  await client.connect();
  return buildApp(new RedisDoseStock(client));
}
