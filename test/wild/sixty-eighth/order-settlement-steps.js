import Redlock from 'redlock4';
import { redisClients } from '../infra/redis.js';
import { logger } from '../infra/logger.js';

const TTL_MS = 20_000;
const PSP_TIMEOUT_MS = 8_000;
const SPARE_MS = 3_000;

const redlock = new Redlock(redisClients(), {
  driftFactor: 0.01,
  retryCount: 15,
  retryDelay: 200,
  retryJitter: 100,
});

redlock.on('clientError', (err) => logger.warn({ err }, 'redlock client'));

async function locked(resource, work) {
  const lock = await redlock.lock(resource, TTL_MS);
  const ensureTime = (ms) => {
    if (Date.now() + ms > lock.expiration) {
      throw new Error(`${resource}: ${lock.expiration - Date.now()} ms left, ${ms} needed`);
    }
  };
  try {
    return await work(ensureTime);
  } finally {
    await lock.unlock().catch((err) => logger.warn({ err, resource }, 'unlock failed'));
  }
}

/**
 * The steps of the settlement saga which touch an order's money. An order is one document
 * (`captured`, `refunded`, `balance`, `history`), loaded and saved as a whole.
 */
export class OrderSettlementSteps {
  constructor({ orders, payments, psp, events }) {
    this.orders = orders;
    this.payments = payments;
    this.psp = psp;
    this.events = events;
  }

  /** Saga step "capture": called by the fulfilment consumer, for every parcel of an order. */
  async capture({ orderId, parcelId, amount }) {
    const order = await locked(`settlement:order:${orderId}`, async (ensureTime) => {
      const doc = await this.orders.load(orderId);
      if (doc.history.some((entry) => entry.ref === `parcel:${parcelId}`)) {
        return doc;
      }
      if (doc.captured + amount > doc.authorized) {
        throw new Error(`order ${orderId}: capture of ${amount} exceeds the authorization`);
      }

      ensureTime(PSP_TIMEOUT_MS + SPARE_MS);
      await this.psp.capture(doc.paymentId, amount, {
        idempotencyKey: `capture:${parcelId}`,
        timeout: PSP_TIMEOUT_MS,
      });

      ensureTime(SPARE_MS);
      doc.captured += amount;
      doc.balance = doc.captured - doc.refunded;
      doc.history.push({ ref: `parcel:${parcelId}`, type: 'capture', amount, at: new Date() });
      await this.orders.save(doc);
      return doc;
    });

    await this.events.emit('order.captured', { id: `capture:${parcelId}`, orderId, balance: order.balance });
    return order.balance;
  }

  /** Saga step "refund": called by the returns desk and by chargebacks, which know the payment. */
  async refund({ paymentId, returnId, amount }) {
    const payment = await this.payments.get(paymentId);

    const order = await locked(`settlement:payment:${payment.id}`, async (ensureTime) => {
      const doc = await this.orders.load(payment.orderId);
      if (doc.history.some((entry) => entry.ref === `return:${returnId}`)) {
        return doc;
      }
      if (amount > doc.captured - doc.refunded) {
        throw new Error(`order ${doc.id}: refund of ${amount} exceeds what was captured`);
      }

      ensureTime(PSP_TIMEOUT_MS + SPARE_MS);
      await this.psp.refund(payment.id, amount, {
        idempotencyKey: `refund:${returnId}`,
        timeout: PSP_TIMEOUT_MS,
      });

      ensureTime(SPARE_MS);
      doc.refunded += amount;
      doc.balance = doc.captured - doc.refunded;
      doc.history.push({ ref: `return:${returnId}`, type: 'refund', amount, at: new Date() });
      await this.orders.save(doc);
      return doc;
    });

    await this.events.emit('order.refunded', { id: `refund:${returnId}`, orderId: order.id, balance: order.balance });
    return order.balance;
  }
}
