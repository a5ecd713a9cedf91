import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { Redis } from '@upstash/redis';
import axios from 'axios';

const redis = Redis.fromEnv();
const dynamo = DynamoDBDocumentClient.from(new DynamoDBClient({}));
const TABLE = process.env.CONNECTIONS_TABLE!;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

interface CachedToken {
  accessToken: string;
  expiresAt: number;
}

async function cachedToken(tenant: string): Promise<string | null> {
  const cached = await redis.get<CachedToken>(`crm:token:${tenant}`);
  return cached && cached.expiresAt - Date.now() > 60_000 ? cached.accessToken : null;
}

// The CRM rotates refresh tokens. The previous one keeps working until the new one
// is first used, so a lost answer is repaired by asking again.
async function refresh(tenant: string): Promise<string> {
  const { Item } = await dynamo.send(new GetCommand({ TableName: TABLE, Key: { tenant }, ConsistentRead: true }));
  if (!Item) throw new Error(`tenant ${tenant} is not connected`);

  const { data } = await axios.post(
    'https://login.crm.example/oauth/token',
    new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: Item.refreshToken,
      client_id: process.env.CRM_CLIENT_ID!,
      client_secret: process.env.CRM_CLIENT_SECRET!,
    }),
    { timeout: 6_000 },
  );
  await dynamo.send(
    new UpdateCommand({
      TableName: TABLE,
      Key: { tenant },
      UpdateExpression: 'SET refreshToken = :new, refreshedAt = :now',
      ConditionExpression: 'refreshToken = :old',
      ExpressionAttributeValues: { ':new': data.refresh_token, ':old': Item.refreshToken, ':now': Date.now() },
    }),
  );
  const lifetime = Number(data.expires_in) * 1000;
  const entry: CachedToken = { accessToken: data.access_token, expiresAt: Date.now() + lifetime };
  await redis.set(`crm:token:${tenant}`, entry, { px: lifetime });
  return entry.accessToken;
}

/** One refresh per tenant at a time; everybody else waits for its result. */
async function accessToken(tenant: string, context: Context): Promise<string> {
  const lockKey = `crm:refresh:${tenant}`;
  for (;;) {
    const known = await cachedToken(tenant);
    if (known) return known;

    const remaining = context.getRemainingTimeInMillis();
    if (remaining < 10_000) throw new Error('not enough time left for a refresh');

    // Lambda ends us when the remaining time is over, the lock stays a little longer
    const owner = randomUUID();
    const reply = await redis.set(lockKey, owner, { nx: true, px: remaining + 5_000 });
    // the client repeats a request whose answer got lost, then NX finds our own value
    if (reply === 'OK' || (await redis.get<string>(lockKey)) === owner) {
      try {
        return (await cachedToken(tenant)) ?? (await refresh(tenant));
      } finally {
        await redis.eval(RELEASE, [lockKey], [owner]).catch((err) => console.warn('release failed', lockKey, err));
      }
    }
    await sleep(300);
  }
}

export async function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  const batchItemFailures: SQSBatchResponse['batchItemFailures'] = [];
  for (const record of event.Records) {
    try {
      const { tenant, contact } = JSON.parse(record.body);
      const token = await accessToken(tenant, context);
      await axios.put(`https://api.crm.example/contacts/${encodeURIComponent(contact.email)}`, contact, {
        headers: { authorization: `Bearer ${token}` },
        timeout: 5_000,
      });
    } catch (err) {
      console.error('contact failed', record.messageId, err);
      batchItemFailures.push({ itemIdentifier: record.messageId });
    }
  }
  return { batchItemFailures };
}
