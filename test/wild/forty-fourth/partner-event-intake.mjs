import { randomUUID } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, TransactWriteCommand } from '@aws-sdk/lib-dynamodb';
import { Redis } from '@upstash/redis';
import { z } from 'zod';

const redis = Redis.fromEnv();
const ddb = DynamoDBDocumentClient.from(new DynamoDBClient({}));

const ORDERS = process.env.ORDERS_TABLE;
const EVENTS = process.env.EVENTS_TABLE;

// The function is killed after 30 s (see serverless.yml), a claim outlives that.
const CLAIM_MS = 60_000;
const DONE_S = 7 * 24 * 3600;

const FINISH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;
const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const Event = z.object({
  id: z.string().min(8),
  orderId: z.string(),
  type: z.enum(['picked', 'shipped', 'delivered', 'returned']),
  occurredAt: z.string().datetime(),
});

const RANK = { created: 0, picked: 1, shipped: 2, delivered: 3, returned: 4 };

async function applyEvent(event) {
  const { Item: order } = await ddb.send(
    new GetCommand({ TableName: ORDERS, Key: { id: event.orderId }, ConsistentRead: true }),
  );
  if (!order) throw new Error(`unknown order ${event.orderId}`);
  // Partners deliver out of order now and then: keep the event, don't go backwards.
  const status = RANK[event.type] > RANK[order.status] ? event.type : order.status;

  try {
    await ddb.send(
      new TransactWriteCommand({
        TransactItems: [
          { Put: { TableName: EVENTS, Item: { ...event }, ConditionExpression: 'attribute_not_exists(id)' } },
          {
            Update: {
              TableName: ORDERS,
              Key: { id: event.orderId },
              UpdateExpression: 'SET #s = :s, revision = :next',
              ConditionExpression: 'revision = :seen',
              ExpressionAttributeNames: { '#s': 'status' },
              ExpressionAttributeValues: { ':s': status, ':seen': order.revision, ':next': order.revision + 1 },
            },
          },
        ],
      }),
    );
  } catch (err) {
    const stored = err.name === 'TransactionCanceledException' && err.CancellationReasons?.[0]?.Code === 'ConditionalCheckFailed';
    if (!stored) throw err;
    console.info('event was stored before', event.id);
  }
}

const reply = (statusCode, body, headers = {}) => ({ statusCode, headers, body: JSON.stringify(body) });

export async function handler(req) {
  let body;
  try {
    body = JSON.parse(req.body ?? '');
  } catch {
    return reply(400, { error: 'not json' });
  }
  const parsed = Event.safeParse(body);
  if (!parsed.success) return reply(400, parsed.error.flatten());
  const event = parsed.data;

  const key = `partner-event:${event.id}`;
  const token = `p:${randomUUID()}`;
  const claimed = await redis.set(key, token, { nx: true, px: CLAIM_MS });
  if (claimed !== 'OK') {
    const holder = await redis.get(key);
    if (holder === 'done') return reply(200, { duplicate: true });
    // The HTTP client retries by itself, then the claim we run into is our own.
    if (holder !== token) return reply(503, { error: 'in progress' }, { 'retry-after': '30' });
  }

  try {
    await applyEvent(event);
  } catch (err) {
    console.error('event failed', event.id, err);
    await redis.eval(DROP, [key], [token]).catch((e) => console.warn('claim not dropped', e));
    return reply(500, { error: 'not processed' });
  }

  await redis.eval(FINISH, [key], [token, DONE_S]).catch((e) => console.warn('claim not finished', event.id, e));
  return reply(200, { duplicate: false });
}
