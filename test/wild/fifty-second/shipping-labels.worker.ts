import axios from 'axios';
import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';
import { prisma } from '../db';
import { config } from '../config';
import { logger } from '../config/logger';

const LOCK_MS = 30_000;

const lockClient = new Redis(config.redisUrl, { maxRetriesPerRequest: 2, commandTimeout: 2_000 });
const queueConnection = new Redis(config.redisUrl, { maxRetriesPerRequest: null });

const redlock = new Redlock([lockClient], {
  retryCount: 8,
  retryDelay: 500,
  retryJitter: 250,
  automaticExtensionThreshold: 8_000,
});

redlock.on('error', (err: unknown) => {
  if (err instanceof ResourceLockedError) return;
  logger.warn({ err }, 'redlock client error');
});

type LabelJob = { shipmentId: string };

async function purchaseLabel(job: Job<LabelJob>): Promise<void> {
  const { shipmentId } = job.data;

  await redlock.using([`lock:shipment-label:${shipmentId}`], LOCK_MS, async (signal) => {
    const shipment = await prisma.shipment.findUniqueOrThrow({
      where: { id: shipmentId },
      include: { parcel: true, address: true },
    });
    if (shipment.labelUrl) {
      logger.info({ shipmentId }, 'label already purchased');
      return;
    }

    if (signal.aborted) throw signal.error ?? new Error('lock lost');
    const { data } = await axios.post(
      `${config.carrierUrl}/labels`,
      {
        reference: shipment.id,
        service: shipment.service,
        weightGrams: shipment.parcel.weightGrams,
        to: shipment.address,
      },
      {
        headers: {
          authorization: `Bearer ${config.carrierToken}`,
          'idempotency-key': `label-${shipment.id}-${shipment.revision}`,
        },
        timeout: 15_000,
      },
    );

    if (signal.aborted) throw signal.error ?? new Error('lock lost');
    const { count } = await prisma.shipment.updateMany({
      where: { id: shipment.id, revision: shipment.revision, labelUrl: null },
      data: { labelUrl: data.labelUrl, trackingNumber: data.trackingNumber, labelledAt: new Date() },
    });
    if (count === 0) throw new Error(`shipment ${shipmentId} changed while the label was purchased`);
  });
}

export const labelWorker = new Worker<LabelJob>('shipping-labels', purchaseLabel, {
  connection: queueConnection,
  concurrency: 4,
});

labelWorker.on('failed', (job, err) => {
  logger.error({ err, jobId: job?.id, attempts: job?.attemptsMade }, 'label job failed');
});

labelWorker.on('error', (err) => {
  logger.error({ err }, 'label worker error');
});

export async function shutdown(): Promise<void> {
  await labelWorker.close();
  await Promise.allSettled([lockClient.quit(), queueConnection.quit()]);
}
