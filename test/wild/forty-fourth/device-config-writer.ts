import { randomUUID } from 'node:crypto';
import axios from 'axios';
import type { FastifyPluginAsync } from 'fastify';
import Redis from 'ioredis';
import { z } from 'zod';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 1_500 });

const LOCK_MS = 15_000;

// Lock and fencing number in one go; the number only ever grows.
const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return false`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// Gateways run on small boxes that stall now and then, longer than a lock lives.
// The fence makes sure that whoever comes back late does not write over a newer
// configuration.
const STORE = `
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and seen > ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'doc', ARGV[2], 'updatedAt', ARGV[3])
return 1`;

const keys = (siteId: string) => ({
  lock: `{site:${siteId}}:config:lock`,
  fence: `{site:${siteId}}:config:fence`,
  doc: `{site:${siteId}}:config`,
});

const Patch = z
  .object({
    setpointC: z.number().min(5).max(30),
    nightSetbackC: z.number().min(0).max(8),
    schedule: z.array(z.object({ from: z.string(), to: z.string(), mode: z.enum(['eco', 'comfort', 'off']) })),
    firmwareChannel: z.enum(['stable', 'beta']),
  })
  .partial()
  .strict();
type Patch = z.infer<typeof Patch>;

type Outcome = { status: 'stored'; doc: Record<string, unknown> } | { status: 'busy' | 'superseded' } | { status: 'rejected'; reasons: string[] };

async function simulate(siteId: string, doc: Record<string, unknown>): Promise<string[]> {
  const { data } = await axios.post<{ problems: string[] }>(
    `${process.env.SIMULATOR_URL}/sites/${siteId}/dry-run`,
    doc,
    { timeout: 8_000 },
  );
  return data.problems;
}

export async function patchSiteConfig(siteId: string, patch: Patch): Promise<Outcome> {
  const k = keys(siteId);
  const token = randomUUID();
  const fence = (await redis.eval(LOCK, 2, k.lock, k.fence, token, LOCK_MS)) as number | null;
  if (fence === null) return { status: 'busy' };

  try {
    const current = await redis.hget(k.doc, 'doc');
    const doc = { ...(current ? JSON.parse(current) : {}), ...patch };

    const problems = await simulate(siteId, doc);
    if (problems.length > 0) return { status: 'rejected', reasons: problems };

    const stored = await redis.eval(STORE, 1, k.doc, fence, JSON.stringify(doc), new Date().toISOString());
    return stored === 1 ? { status: 'stored', doc } : { status: 'superseded' };
  } finally {
    try {
      await redis.eval(UNLOCK, 1, k.lock, token);
    } catch {
      // runs out by itself
    }
  }
}

export const siteConfigRoutes: FastifyPluginAsync = async (app) => {
  app.get<{ Params: { siteId: string } }>('/sites/:siteId/config', async (req, reply) => {
    const doc = await redis.hget(keys(req.params.siteId).doc, 'doc');
    return doc ? reply.type('application/json').send(doc) : reply.code(404).send();
  });

  app.patch<{ Params: { siteId: string } }>('/sites/:siteId/config', async (req, reply) => {
    const patch = Patch.safeParse(req.body);
    if (!patch.success) return reply.code(400).send(patch.error.flatten());

    const outcome = await patchSiteConfig(req.params.siteId, patch.data);
    switch (outcome.status) {
      case 'stored':
        return reply.send(outcome.doc);
      case 'rejected':
        return reply.code(422).send({ problems: outcome.reasons });
      case 'busy':
        return reply.code(423).header('retry-after', '5').send();
      case 'superseded':
        req.log.warn({ siteId: req.params.siteId }, 'late config write dropped');
        return reply.code(409).send({ error: 'changed by someone else meanwhile' });
    }
  });
};
