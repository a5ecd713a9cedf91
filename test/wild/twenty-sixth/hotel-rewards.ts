import Redis from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';

export interface Member {
  id: string;
  tier: 'blue' | 'silver' | 'gold';
  points: number;
  blocked: boolean;
}

export interface Reward {
  code: string;
  cost: number;
  minTier: Member['tier'];
}

export interface RewardsContext {
  members: {
    byId(id: string): Promise<Member | null>;
    savePoints(id: string, points: number): Promise<void>;
  };
  vouchers: { issue(memberId: string, rewardCode: string): Promise<string> };
}

export class RedemptionRefused extends Error {
  constructor(readonly code: 'UNKNOWN_MEMBER' | 'BLOCKED' | 'TIER' | 'POINTS') {
    super(`redemption refused: ${code}`);
  }
}

const TIERS: Member['tier'][] = ['blue', 'silver', 'gold'];

const redis = new Redis({
  host: process.env.REDIS_HOST ?? 'localhost',
  port: Number(process.env.REDIS_PORT ?? 6379),
});

const redlock = new Redlock([redis], {
  retryCount: 25,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 1000,
});

redlock.on('error', (err: unknown) => {
  if (err instanceof ResourceLockedError) return;
  console.error('redlock', err);
});

function check(member: Member | null, reward: Reward): asserts member is Member {
  if (!member) throw new RedemptionRefused('UNKNOWN_MEMBER');
  if (member.blocked) throw new RedemptionRefused('BLOCKED');
  if (TIERS.indexOf(member.tier) < TIERS.indexOf(reward.minTier)) throw new RedemptionRefused('TIER');
  if (member.points < reward.cost) throw new RedemptionRefused('POINTS');
}

export default async function redeem(ctx: RewardsContext, memberId: string, reward: Reward): Promise<string> {
  // refuse early, most attempts fail here and need no lock
  const member = await ctx.members.byId(memberId);
  check(member, reward);

  return redlock.using([`rewards:member:${memberId}`], 5000, async (signal) => {
    const remaining = member.points - reward.cost;

    if (signal.aborted) throw signal.error;
    await ctx.members.savePoints(memberId, remaining);

    return ctx.vouchers.issue(memberId, reward.code);
  });
}
