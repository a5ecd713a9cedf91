import type { APIGatewayProxyHandlerV2 } from 'aws-lambda';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, PutCommand, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { Redis } from '@upstash/redis';
import dayjs from 'dayjs';
import duration from 'dayjs/plugin/duration';
import { nanoid } from 'nanoid';
import { z } from 'zod';

dayjs.extend(duration);

const redis = Redis.fromEnv();
const ddb = DynamoDBDocumentClient.from(new DynamoDBClient({ maxAttempts: 2 }));
const TABLE = process.env.PLOTS_TABLE!;

// The function is stopped by Lambda after 15 seconds.
const LOCK_TTL = dayjs.duration(45, 'seconds').asSeconds();

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const Reservation = z.object({
  section: z.string(),
  plot: z.number().int(),
  family: z.string().min(1),
  years: z.union([z.literal(10), z.literal(25), z.literal(50)]),
});

const json = (statusCode: number, body: unknown) => ({ statusCode, body: JSON.stringify(body) });

async function reserve(r: z.infer<typeof Reservation>) {
  const pk = `SECTION#${r.section}`;
  const sk = `PLOT#${r.plot}`;
  const plot = await ddb.send(new GetCommand({ TableName: TABLE, Key: { pk, sk }, ConsistentRead: true }));
  if (plot.Item && dayjs(plot.Item.until).isAfter(dayjs())) {
    return json(409, { error: 'plot is taken', until: plot.Item.until });
  }
  const owned = await ddb.send(
    new QueryCommand({
      TableName: TABLE,
      KeyConditionExpression: 'pk = :pk',
      FilterExpression: 'family = :f',
      ExpressionAttributeValues: { ':pk': pk, ':f': r.family },
      ConsistentRead: true,
    }),
  );
  if ((owned.Count ?? 0) >= 4) return json(409, { error: 'a family holds four plots of a section at most' });

  const until = dayjs().add(r.years, 'year').format('YYYY-MM-DD');
  await ddb.send(new PutCommand({ TableName: TABLE, Item: { pk, sk, family: r.family, until, deed: nanoid() } }));
  return json(201, { section: r.section, plot: r.plot, until });
}

export const handler: APIGatewayProxyHandlerV2 = async (event) => {
  const parsed = Reservation.safeParse(JSON.parse(event.body ?? '{}'));
  if (!parsed.success) return json(400, parsed.error.flatten());

  const key = `cemetery:section:${parsed.data.section}`;
  const token = nanoid();
  const locked = await redis.set(key, token, { nx: true, px: LOCK_TTL });
  if (locked !== 'OK') return json(423, { error: 'section register is in use, try again' });

  try {
    return await reserve(parsed.data);
  } finally {
    await redis.eval(RELEASE, [key], [token]).catch((err) => console.warn('release failed', err));
  }
};
