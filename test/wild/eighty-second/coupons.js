const Redlock = require('redlock4')
const redis = require('./redis')
const { Coupon, Redemption } = require('../models')

const LOCK_TTL = 10000

const redlock = new Redlock([redis], {
  retryCount: 20,
  retryDelay: 150,
  retryJitter: 100,
})

redlock.on('clientError', (err) => {
  console.error('coupon lock client error', err)
})

class CouponError extends Error {
  constructor(code, message) {
    super(message)
    this.name = 'CouponError'
    this.code = code
  }
}

function assertUsable(coupon, cart) {
  if (!coupon) {
    throw new CouponError('NOT_FOUND', 'This coupon does not exist')
  }
  if (coupon.expiresAt < new Date()) {
    throw new CouponError('EXPIRED', 'This coupon has expired')
  }
  if (coupon.remaining < 1) {
    throw new CouponError('USED_UP', 'This coupon has been used up')
  }
  if (cart.total < coupon.minimumTotal) {
    throw new CouponError('TOO_SMALL', `Spend at least ${coupon.minimumTotal}`)
  }
}

async function redeemCoupon(code, cart, userId) {
  const coupon = await Coupon.findOne({ code }).maxTimeMS(2000).lean()
  assertUsable(coupon, cart)

  const lock = await redlock.lock(`coupon:${coupon._id}`, LOCK_TTL)
  try {
    await Coupon.updateOne(
      { _id: coupon._id },
      { $set: { remaining: coupon.remaining - 1, lastUsedAt: new Date() } },
    ).maxTimeMS(2000)

    await Redemption.create({ coupon: coupon._id, user: userId, cart: cart.id, amount: coupon.amount })

    return { ...cart, total: cart.total - coupon.amount, coupon: coupon.code }
  } finally {
    await lock.unlock().catch((err) => {
      console.warn('coupon %s was not unlocked: %s', code, err.message)
    })
  }
}

module.exports = { redeemCoupon, CouponError }
