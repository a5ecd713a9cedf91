import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';
import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { prisma } from '../db';
import { config } from '../config';
import { logger } from '../config/logger';

const LOCK_TTL_MS = 45_000;
const MAX_WAIT_MS = 15_000;
const REFRESH_MARGIN_MS = 60_000;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const lockClient = new Redis(config.redisUrl, { maxRetriesPerRequest: 2, commandTimeout: 2_000 });
const queueConnection = new Redis(config.redisUrl, { maxRetriesPerRequest: null });

type SyncJob = { connectionId: string; since: string };

async function withLock<T>(key: string, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  const deadline = Date.now() + MAX_WAIT_MS;
  while ((await lockClient.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) !== 'OK') {
    if (Date.now() >= deadline) throw new Error(`timed out waiting for ${key}`);
    await sleep(150 + Math.random() * 150);
  }
  try {
    return await fn();
  } finally {
    await lockClient.eval(RELEASE, 1, key, token).catch((err) => {
      logger.warn({ err, key }, 'lock release failed');
    });
  }
}

// The provider rotates the refresh token on every use and revokes the whole grant if an old one is presented.
async function getAccessToken(job: Job<SyncJob>): Promise<string> {
  const { connectionId } = job.data;

  return withLock(`lock:crm-token:${job.id}`, async () => {
    const connection = await prisma.crmConnection.findUniqueOrThrow({ where: { id: connectionId } });
    if (connection.expiresAt.getTime() - Date.now() > REFRESH_MARGIN_MS) {
      return connection.accessToken;
    }

    const { data } = await axios.post(
      `${config.crmUrl}/oauth/token`,
      new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: connection.refreshToken,
        client_id: config.crmClientId,
        client_secret: config.crmClientSecret,
      }),
      { timeout: 10_000, signal: AbortSignal.timeout(12_000) },
    );

    await prisma.crmConnection.update({
      where: { id: connectionId },
      data: {
        accessToken: data.access_token,
        refreshToken: data.refresh_token,
        expiresAt: new Date(Date.now() + data.expires_in * 1000),
      },
    });
    return data.access_token;
  });
}

async function syncContacts(job: Job<SyncJob>): Promise<void> {
  const { connectionId, since } = job.data;
  const accessToken = await getAccessToken(job);

  const { data } = await axios.get(`${config.crmUrl}/contacts`, {
    params: { modifiedSince: since },
    headers: { authorization: `Bearer ${accessToken}` },
    timeout: 20_000,
  });
  for (const contact of data.items) {
    await prisma.contact.upsert({
      where: { connectionId_externalId: { connectionId, externalId: contact.id } },
      create: { connectionId, externalId: contact.id, email: contact.email, name: contact.name },
      update: { email: contact.email, name: contact.name },
    });
  }
}

export const crmWorker = new Worker<SyncJob>('crm-sync', syncContacts, {
  connection: queueConnection,
  concurrency: 10,
});

crmWorker.on('failed', (job, err) => {
  logger.error({ err, jobId: job?.id, connectionId: job?.data.connectionId }, 'crm sync failed');
});
