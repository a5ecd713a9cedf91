/** Middleware of Koa: what comes after it is waited for. */
export const koaLock = (redis, ttl = 5_000) =>
  async function lockRequest(ctx, next) {
    const key = `koa:${ctx.params.id}`;
    if (!(await redis.set(key, ctx.state.requestId, 'PX', ttl, 'NX'))) {
      ctx.status = 423;
      return;
    }
    try {
      await next();
    } finally {
      await redis.del(key);
    }
  };
