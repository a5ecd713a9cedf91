import { randomUUID } from 'node:crypto';
import { createClient, defineScript } from 'redis';

const unlockScript = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    local current = tonumber(redis.call('GET', KEYS[1]))
    if current == tonumber(ARGV[1]) then
      return redis.call('DEL', KEYS[1])
    end
    return 0
  `,
  parseCommand(parser, key, token) {
    parser.pushKey(key);
    parser.push(token);
  },
  transformReply: (reply) => reply > 0,
});

let clientPromise;

export function getClient() {
  clientPromise ??= createClient({
    url: process.env.REDIS_URL,
    scripts: { unlockMember: unlockScript },
  })
    .on('error', (err) => console.error('loyalty redis', err.message))
    .connect();
  return clientPromise;
}

export class MemberLocked extends Error {
  constructor(memberId) {
    super(`points of ${memberId} are being changed`);
    this.memberId = memberId;
  }
}

async function lockMember(client, memberId, ttlMs) {
  const token = randomUUID();
  for (const wait of [0, 50, 100, 200, 400]) {
    if (wait) await new Promise((resolve) => setTimeout(resolve, wait + Math.random() * wait));
    const reply = await client.set(`member:${memberId}:lock`, token, { NX: true, PX: ttlMs });
    if (reply === 'OK') return token;
  }
  throw new MemberLocked(memberId);
}

export async function changePoints(memberId, change, { ttlMs = 5_000 } = {}) {
  const client = await getClient();
  const token = await lockMember(client, memberId, ttlMs);
  try {
    return await change(memberId);
  } finally {
    await client.unlockMember(`member:${memberId}:lock`, token);
  }
}

export function tierOf(points) {
  if (points >= 50_000) return 'platinum';
  if (points >= 10_000) return 'gold';
  return points >= 1_000 ? 'silver' : 'basic';
}
