import Redis from 'ioredis';
import pRetry, { AbortError } from 'p-retry';
import Redlock, { ExecutionError } from 'redlock5';
import { config } from '../config.js';
import { logger } from '../logger.js';
import { shipments } from './shipments.js';

const LOCK_DURATION_MS = 10_000;

const redlock = new Redlock([new Redis(config.redis.url, { commandTimeout: 2_000 })], {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 300,
  retryJitter: 200,
  automaticExtensionThreshold: 2_000,
});

redlock.on('error', (err) => logger.debug({ err }, 'redlock'));

async function callCarrier(path, body) {
  const response = await fetch(new URL(path, config.carrier.baseUrl), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${config.carrier.token}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(config.carrier.timeoutMs ?? 20_000),
  });
  if (response.status === 422) {
    const problem = await response.json();
    throw new AbortError(`carrier refused the shipment: ${problem.detail}`);
  }
  if (!response.ok) throw new Error(`carrier answered ${response.status}`);
  return response.json();
}

async function buyLabel(shipment) {
  return pRetry(
    () =>
      callCarrier('/v1/labels', {
        reference: shipment.number,
        service: shipment.service,
        from: shipment.origin,
        to: shipment.destination,
        parcels: shipment.parcels,
      }),
    {
      retries: 3,
      minTimeout: 1_000,
      factor: 2,
      onFailedAttempt: (err) =>
        logger.warn({ shipment: shipment.id, attempt: err.attemptNumber }, 'label attempt failed'),
    },
  );
}

/**
 * Buys the label of a shipment. Labels cost money as soon as they are created,
 * and packers like to press the button more than once.
 */
export async function createLabel(shipmentId) {
  let lock;
  try {
    lock = await redlock.acquire([`locks:label:${shipmentId}`], LOCK_DURATION_MS);
  } catch (err) {
    if (err instanceof ExecutionError) return { status: 'busy' };
    throw err;
  }

  try {
    const shipment = await shipments.get(shipmentId);
    if (shipment.label) return { status: 'exists', label: shipment.label };

    const label = await buyLabel(shipment);
    await shipments.setLabel(shipmentId, {
      trackingNumber: label.tracking_number,
      url: label.label_url,
      cost: label.charge,
    });
    logger.info({ shipmentId, tracking: label.tracking_number }, 'label bought');
    return { status: 'created', label };
  } finally {
    await lock.release().catch((err) => logger.warn({ err, shipmentId }, 'label lock not released'));
  }
}

export async function labelRoute(request, reply) {
  const result = await createLabel(request.params.shipmentId);
  return reply.code(result.status === 'busy' ? 409 : 200).send(result);
}
