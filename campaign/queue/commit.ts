/** Shapes of failures that are kept with a schedule each. */
const MOST_SHAPES = 1_000;

/**
 * Enters what a range came to. A range that is there already is not entered again, and its digest has to be the same.
 *
 * KEYS: ranges, totals, failures, pace.
 * ARGV: index, digest, search, seconds of a bucket, counters and failures as JSON, runs, violating runs.
 */
export const COMMIT: string = `
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known then
  if known ~= ARGV[2] then redis.call('HINCRBY', KEYS[2], 'mismatches', 1) end
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local now = tonumber(redis.call('TIME')[1])
redis.call('HSET', KEYS[2], 'latest', now)
redis.call('HINCRBY', KEYS[2], 'violating', ARGV[8])
for name, count in pairs(cjson.decode(ARGV[5])) do
  redis.call('HINCRBY', KEYS[2], ARGV[3] .. ' ' .. name, string.format('%.0f', count))
end
for _, it in ipairs(cjson.decode(ARGV[6])) do
  local kept = redis.call('HGET', KEYS[3], it.shape)
  if kept then
    local old = cjson.decode(kept)
    if it.search < old.search or (it.search == old.search and it.run < old.run) then
      redis.call('HSET', KEYS[3], it.shape, it.text)
    end
  elseif redis.call('HLEN', KEYS[3]) < ${MOST_SHAPES} then
    redis.call('HSET', KEYS[3], it.shape, it.text)
  else
    redis.call('HINCRBY', KEYS[2], 'unkept', 1)
  end
end
local bucket = math.floor(now / ARGV[4]) .. ' ' .. ARGV[3]
local runs, violating = 0, 0
local paced = redis.call('HGET', KEYS[4], bucket)
if paced then
  local a, b = string.match(paced, '(%d+) (%d+)')
  runs, violating = tonumber(a), tonumber(b)
end
redis.call('HSET', KEYS[4], bucket, string.format('%.0f %.0f', runs + ARGV[7], violating + ARGV[8]))
return 1
`;
