/**
 * Bids on a lot of the fish auction.
 *
 * `{lot:<id>}:head` is a hash { state, price, buyer }; the auctioneer's desk flips
 * `state` from "open" to "hammered" on that same hash.
 * `{lot:<id>}:bids` is a hash bidId -> price.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createClientPool, WatchError } from 'redis';

const MAX_ATTEMPTS = 6;

/**
 * @typedef {object} Bid
 * @property {string} bidId  chosen by the bidder's terminal, the same on every resend
 * @property {string} buyer
 * @property {number} price  in øre per kilo
 */

/** @typedef {{ accepted: boolean, reason?: 'closed' | 'low', price?: number }} Verdict */

/**
 * @param {string} url
 */
export async function openBidBook(url) {
  const pool = createClientPool({ url }, { minimum: 2, maximum: 20, acquireTimeout: 2_000 });
  pool.on('error', (err) => console.error('bid pool', err.message));
  await pool.connect();

  /**
   * One optimistic round on a connection that nobody else uses meanwhile.
   * @param {string} lotId @param {Bid} bid @param {number} step
   * @returns {Promise<Verdict>}
   */
  const round = (lotId, bid, step) =>
    pool.execute(async (client) => {
      const head = `{lot:${lotId}}:head`;
      const bids = `{lot:${lotId}}:bids`;
      await client.watch([head, bids]);
      try {
        if (await client.hExists(bids, bid.bidId)) return { accepted: true, price: bid.price };

        const lot = await client.hGetAll(head);
        if (lot.state !== 'open') return { accepted: false, reason: 'closed' };

        const floor = Number(lot.price ?? 0) + step;
        if (bid.price < floor) return { accepted: false, reason: 'low', price: floor };

        await client
          .multi()
          .hSet(head, { price: String(bid.price), buyer: bid.buyer })
          .hSet(bids, bid.bidId, String(bid.price))
          .exec();
        return { accepted: true, price: bid.price };
      } finally {
        await client.unwatch().catch(() => undefined);
      }
    });

  /**
   * Places a bid. A bid that was already taken is reported as accepted again.
   * @param {string} lotId @param {Bid} bid @param {number} [step]
   * @returns {Promise<Verdict>}
   */
  async function place(lotId, bid, step = 50) {
    if (!Number.isSafeInteger(bid.price) || bid.price <= 0) throw new RangeError('price must be whole øre');
    for (let attempt = 1; ; attempt++) {
      try {
        return await round(lotId, bid, step);
      } catch (err) {
        if (!(err instanceof WatchError) || attempt === MAX_ATTEMPTS) throw err;
        await sleep(Math.random() * 15 * attempt);
      }
    }
  }

  return { place, close: () => pool.close() };
}
