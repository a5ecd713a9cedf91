/** Gives what its work has given, in capitals. */
export async function shouted(redis, name, work) {
  if (!(await redis.set(name, '1', 'PX', 8_000, 'NX'))) return 'BUSY';
  try {
    return (await work()).toUpperCase();
  } finally {
    await redis.del(name);
  }
}
