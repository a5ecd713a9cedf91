import Redis from 'ioredis';
import { nanoid } from 'nanoid';
import { setTimeout as sleep } from 'node:timers/promises';
import { Auction } from '../models/auction'; // mongoose
import { Bid } from '../models/bid';
import { notifyOutbid } from '../notifications';

const redis = new Redis(process.env.REDIS_URL!);

const OWNER = `bids-${nanoid()}`;
const TTL_MS = 20_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class AuctionBusyError extends Error {}
export class BidRejectedError extends Error {}

type Grant = 'taken' | 'nested';

async function enter(key: string, waitMs: number): Promise<Grant> {
  const until = Date.now() + waitMs;
  for (;;) {
    const reply = await redis.set(key, OWNER, 'PX', TTL_MS, 'NX');
    if (reply === 'OK') return 'taken';
    // settleIfOver() is also called from placeBid(), which has the lock already
    if ((await redis.get(key)) === OWNER) return 'nested';
    if (Date.now() >= until) throw new AuctionBusyError(key);
    await sleep(25 + Math.random() * 75);
  }
}

async function withAuctionLock<T>(auctionId: string, fn: () => Promise<T>): Promise<T> {
  const key = `auction:lock:${auctionId}`;
  const grant = await enter(key, 3_000);
  try {
    return await fn();
  } finally {
    if (grant === 'taken') {
      await redis.eval(RELEASE, 1, key, OWNER).catch((err) => console.warn('auction unlock', key, err));
    }
  }
}

export async function settleIfOver(auctionId: string) {
  return withAuctionLock(auctionId, async () => {
    const auction = await Auction.findById(auctionId).maxTimeMS(2_000);
    if (!auction || auction.status !== 'live' || auction.endsAt > new Date()) return false;
    auction.status = auction.highBidder ? 'sold' : 'unsold';
    await auction.save();
    return true;
  });
}

export async function placeBid(auctionId: string, bidderId: string, amountCents: number) {
  const outcome = await withAuctionLock(auctionId, async () => {
    if (await settleIfOver(auctionId)) throw new BidRejectedError('auction is over');

    const auction = await Auction.findById(auctionId).maxTimeMS(2_000);
    if (!auction || auction.status !== 'live') throw new BidRejectedError('auction is not live');
    if (auction.sellerId.equals(bidderId)) throw new BidRejectedError('own auction');

    const minimum = auction.highBidCents ? auction.highBidCents + auction.stepCents : auction.startCents;
    if (amountCents < minimum) throw new BidRejectedError(`minimum is ${minimum}`);

    const previous = auction.highBidder;
    await Bid.create({ auction: auctionId, bidder: bidderId, amountCents });
    auction.highBidCents = amountCents;
    auction.highBidder = bidderId;
    // late bids prolong the auction by two minutes
    const soonest = new Date(Date.now() + 2 * 60_000);
    if (auction.endsAt < soonest) auction.endsAt = soonest;
    await auction.save();
    return { previous, endsAt: auction.endsAt };
  });

  if (outcome.previous && String(outcome.previous) !== bidderId) {
    await notifyOutbid(outcome.previous, auctionId, amountCents).catch((err: unknown) => console.warn(err));
  }
  return { endsAt: outcome.endsAt };
}
