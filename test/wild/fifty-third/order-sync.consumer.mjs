import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import axios from 'axios';
import pino from 'pino';
import { config } from '../config.js';

const log = pino({ name: 'order-sync' });
const sqs = new SQSClient({ region: config.aws.region });
const erp = axios.create({ baseURL: config.erp.url, auth: config.erp.auth });
const redlock = new Redlock([new Redis(config.redis.url)], {
  retryCount: 0,
  automaticExtensionThreshold: 5_000,
});

const HANDLER_LIMIT_MS = 20_000;

class HandlerTimeout extends Error {
  constructor(orderId) {
    super(`order ${orderId} was not synced in ${HANDLER_LIMIT_MS} ms`);
    this.name = 'HandlerTimeout';
  }
}

async function syncOrder(order, signal) {
  const found = await erp.get('/sales-orders', { params: { externalRef: order.id } });
  let salesOrder = found.data.items[0];
  if (!salesOrder) {
    if (signal.aborted) throw signal.error;
    const created = await erp.post('/sales-orders', {
      externalRef: order.id,
      customer: order.customerNo,
      lines: order.lines,
    });
    salesOrder = created.data;
  }
  const deliveries = await erp.get(`/sales-orders/${salesOrder.no}/deliveries`);
  if (deliveries.data.items.length === 0) {
    if (signal.aborted) throw signal.error;
    await erp.post(`/sales-orders/${salesOrder.no}/deliveries`, { warehouse: order.warehouse });
  }
  return salesOrder.no;
}

function limited(promise, orderId) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new HandlerTimeout(orderId)), HANDLER_LIMIT_MS);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

async function handle(message) {
  const order = JSON.parse(message.Body);
  const salesOrderNo = await redlock.using([`order-sync:${order.id}`], 30_000, (signal) =>
    limited(syncOrder(order, signal), order.id),
  );
  await sqs.send(
    new DeleteMessageCommand({ QueueUrl: config.queues.orders, ReceiptHandle: message.ReceiptHandle }),
  );
  log.info({ orderId: order.id, salesOrderNo }, 'order synced');
}

export async function consume(stop) {
  while (!stop.aborted) {
    const { Messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: config.queues.orders,
        MaxNumberOfMessages: 5,
        WaitTimeSeconds: 20,
        VisibilityTimeout: 30,
      }),
    );
    await Promise.all(
      Messages.map((m) =>
        handle(m).catch((err) => {
          if (err instanceof ExecutionError) log.debug({ id: m.MessageId }, 'order is being synced');
          else log.error({ err, id: m.MessageId }, 'left for redelivery');
        }),
      ),
    );
  }
}
