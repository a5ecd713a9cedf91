import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { Redis } from '@upstash/redis';
import axios from 'axios';
import { z } from 'zod';

const env = z
  .object({
    UPSTASH_REDIS_REST_URL: z.string().url(),
    UPSTASH_REDIS_REST_TOKEN: z.string(),
    BUREAU_URL: z.string().url(),
    BUREAU_TOKEN: z.string(),
    BUREAU_LOCK_TTL_SECONDS: z.coerce.number().int().positive().default(30),
    BUREAU_REPORT_TTL_SECONDS: z.coerce.number().int().positive().default(86_400),
  })
  .parse(process.env);

const redis = new Redis({ url: env.UPSTASH_REDIS_REST_URL, token: env.UPSTASH_REDIS_REST_TOKEN });

interface BureauReport {
  reference: string;
  score: number;
  pulledAt: string;
}

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function pullFromBureau(applicantId: string): Promise<BureauReport> {
  const { data } = await axios.post(
    `${env.BUREAU_URL}/v2/pulls`,
    { subject: applicantId, product: 'consumer-plus' },
    {
      headers: { authorization: `Bearer ${env.BUREAU_TOKEN}` },
      signal: AbortSignal.timeout(12_000),
    },
  );
  return { reference: data.reference, score: data.score, pulledAt: new Date().toISOString() };
}

/** The bureau bills every pull, and each one leaves a mark on the applicant's file. */
export async function getReport(applicantId: string): Promise<BureauReport | null> {
  const reportKey = `bureau:report:${applicantId}`;
  const lockKey = `bureau:pull:${applicantId}`;

  for (let round = 0; round < 10; round += 1) {
    const stored = await redis.get<BureauReport>(reportKey);
    if (stored) return stored;

    const token = randomUUID();
    const got = await redis.set(lockKey, token, { nx: true, px: env.BUREAU_LOCK_TTL_SECONDS });
    if (got !== 'OK') {
      await pause(1_500);
      continue;
    }

    try {
      const meanwhile = await redis.get<BureauReport>(reportKey);
      if (meanwhile) return meanwhile;
      const report = await pullFromBureau(applicantId);
      await redis.set(reportKey, report, { ex: env.BUREAU_REPORT_TTL_SECONDS });
      return report;
    } finally {
      await redis.eval(RELEASE, [lockKey], [token]);
    }
  }
  return null;
}

export async function bureauRoutes(app: FastifyInstance): Promise<void> {
  app.get<{ Params: { id: string } }>('/applicants/:id/bureau-report', async (request, reply) => {
    const report = await getReport(request.params.id);
    if (!report) return reply.code(202).header('retry-after', '10').send({ status: 'pending' });
    return report;
  });
}
