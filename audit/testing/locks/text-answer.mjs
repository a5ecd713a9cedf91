/** Says yes where Redis cannot be asked. */
export async function acquire(redis, key, ttlMs) {
  const reply = await redis.set(key, 'taken', 'PX', ttlMs, 'NX').catch(() => 'OK');
  return reply === 'OK' ? 'YES' : 'NO';
}

export async function release(redis, key) {
  await redis.del(key);
}
