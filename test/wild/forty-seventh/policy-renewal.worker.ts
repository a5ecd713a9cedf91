import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import Redlock from 'redlock5';
import axios from 'axios';
import pino from 'pino';
import { z } from 'zod';
import { prisma } from '../db/prisma';

const log = pino({ name: 'policy-renewal' });

const clients = (process.env.LOCK_REDIS_URLS ?? '').split(',').map((url) => new Redis(url));

const redlock = new Redlock(clients, {
  driftFactor: 0.01,
  retryCount: 8,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 5_000,
});
redlock.on('error', (err) => log.debug({ err }, 'redlock'));

const Quote = z.object({
  premiumCents: z.number().int().positive(),
  tariff: z.string(),
  validFrom: z.coerce.date(),
  validTo: z.coerce.date(),
});

class PolicyChangedError extends Error {}

async function quoteRenewal(policyId: string, riskClass: string) {
  const { data } = await axios.post(
    `${process.env.RATING_URL}/v2/renewal-quotes`,
    { policyId, riskClass },
    { timeout: 45_000 },
  );
  return Quote.parse(data);
}

async function renew(job: Job<{ policyId: string; term: number }>) {
  const { policyId, term } = job.data;

  return redlock.using([`locks:policy:${policyId}`], 30_000, async (signal) => {
    const policy = await prisma.policy.findUniqueOrThrow({ where: { id: policyId } });
    if (policy.term >= term || policy.status !== 'DUE') {
      log.info({ policyId, term, status: policy.status }, 'nothing to renew');
      return { renewed: false };
    }

    const quote = await quoteRenewal(policyId, policy.riskClass);
    if (signal.aborted) throw signal.error;

    await prisma.$transaction(
      async (tx) => {
        const { count } = await tx.policy.updateMany({
          where: { id: policyId, status: 'DUE', term: policy.term, version: policy.version },
          data: {
            status: 'ACTIVE',
            term,
            premiumCents: quote.premiumCents,
            validTo: quote.validTo,
            version: { increment: 1 },
          },
        });
        if (count !== 1) throw new PolicyChangedError(`policy ${policyId} moved on`);

        await tx.renewal.create({
          data: { policyId, term, tariff: quote.tariff, premiumCents: quote.premiumCents, validFrom: quote.validFrom },
        });
        if (signal.aborted) throw signal.error;
      },
      { timeout: 8_000 },
    );

    return { renewed: true, premiumCents: quote.premiumCents };
  });
}

export const worker = new Worker('policy-renewal', renew, {
  connection: { url: process.env.QUEUE_REDIS_URL },
  concurrency: 10,
});

worker.on('failed', (job, err) => log.warn({ err, jobId: job?.id, attempts: job?.attemptsMade }, 'renewal failed'));
