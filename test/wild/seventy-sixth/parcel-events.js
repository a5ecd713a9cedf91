'use strict';

const amqp = require('amqplib');
const { createClient } = require('redis');

const QUEUE = 'parcel.events';
const SEEN_DAYS = 7;
const REQUEUE_DELAY_MS = 1000;

class ParcelEventConsumer {
  /**
   * @param {object} deps
   * @param {import('redis').RedisClientType} deps.redis
   * @param {(event: object) => Promise<void>} deps.handle  books the event and bills the customer
   * @param {{info: Function, warn: Function, error: Function}} deps.log
   */
  constructor({ redis, handle, log }) {
    this.redis = redis;
    this.handle = handle;
    this.log = log;
    this.channel = null;
  }

  async start(url) {
    const connection = await amqp.connect(url);
    this.channel = await connection.createChannel();
    await this.channel.assertQueue(QUEUE, { durable: true });
    await this.channel.prefetch(16);
    await this.channel.consume(QUEUE, (msg) => {
      if (msg) this.onMessage(msg);
    });
    this.log.info(`consuming ${QUEUE}`);
  }

  /** True for the one consumer that gets to work on this event. */
  async claim(eventId) {
    const reply = await this.redis.set(`parcel:seen:${eventId}`, String(process.pid), {
      NX: true,
      EX: SEEN_DAYS * 24 * 60 * 60,
    });
    return reply === 'OK';
  }

  async onMessage(msg) {
    let event;
    try {
      event = JSON.parse(msg.content.toString('utf8'));
    } catch (err) {
      this.log.error('unreadable message, to the dead letters', err);
      this.channel.nack(msg, false, false);
      return;
    }

    try {
      // RabbitMQ delivers at least once, and carriers like to send everything twice.
      if (!(await this.claim(event.id))) {
        this.log.info(`event ${event.id} is a duplicate`);
        this.channel.ack(msg);
        return;
      }
      await this.handle(event);
      this.channel.ack(msg);
    } catch (err) {
      this.log.warn(`event ${event.id} failed, back to the queue`, err);
      setTimeout(() => this.channel.nack(msg, false, true), REQUEUE_DELAY_MS);
    }
  }
}

async function main() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => console.error('redis', err));
  await redis.connect();

  const { bookAndBill } = require('../billing');
  const consumer = new ParcelEventConsumer({ redis, handle: bookAndBill, log: console });
  await consumer.start(process.env.AMQP_URL);
}

if (require.main === module) {
  main().catch((err) => {
    console.error(err);
    process.exit(1);
  });
}

module.exports = { ParcelEventConsumer };
