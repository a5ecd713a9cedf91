import { HEALING, type NodeScripts } from '../core/index.js';
import { type Deviation, replaces, wraps } from './deviation.js';

/** For ever, and the most. */
const FOR_EVER = 2 ** 40;

const SET_ABSENT_OR_OWN = `
for _, key in ipairs(KEYS) do
  local value = redis.call('get', key)
  if value and value ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2], 'NX')
end
return 1`.trim();

const SET_ANY = `
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2])
end
return 1`.trim();

const SET_OWN_OR_MISSING = `
for _, key in ipairs(KEYS) do
  local value = redis.call('get', key)
  if value and value ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2])
end
return 1`.trim();

const EXPIRE_PRESENT = `
for _, key in ipairs(KEYS) do
  if redis.call('exists', key) == 0 then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('pexpire', key, ARGV[2])
end
return 1`.trim();

const DELETE_ANY = `return redis.call('del', unpack(KEYS)) > 0 and 1 or 0`;

const IS_OWN = `
for _, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[1] then return 1 end
end
return 0`.trim();

function script<Part extends 'acquire' | 'extend' | 'release'>(
  part: Part,
  says: string,
  form: NodeScripts[Part],
): Deviation {
  const change = wraps('scripts', says, (below) => ({ ...below.scripts, [part]: form }));
  return { ...change, place: `scripts.${part}`, wraps: false };
}

/** How long keys live, and what is done to them. */
export const KEYS: Readonly<Record<string, Deviation>> = {
  'key-for-ever': replaces(
    'keyLife',
    'keys have no expiry: it was left out, or lost in a second command',
    () => FOR_EVER,
  ),
  'key-thousandfold': replaces('keyLife', 'keys live for seconds instead of milliseconds', (ttlMs) => ttlMs * 1000),
  'key-thousandth': replaces('keyLife', 'keys live for milliseconds instead of seconds', (ttlMs) =>
    Math.max(1, Math.floor(ttlMs / 1000)),
  ),
  // Redisson: a unit that is converted in the loop.
  'key-thousandfold-per-retry': replaces(
    'keyLife',
    'keys live a thousandfold longer with each retry',
    (ttlMs, attempt) => Math.min(FOR_EVER, ttlMs * 1000 ** Math.min(attempt, 4)),
  ),

  'sets-any': script('acquire', 'a key is set whether or not it is there', {
    onto: 'any',
    renews: true,
    lua: SET_ANY,
    plain: [],
  }),
  // Sound where validity counts from the first sending of the token, and no node is on the list twice.
  'own-key-grants': script('acquire', 'finding the own token counts as a yes', {
    onto: 'missing-or-own',
    renews: false,
    lua: SET_ABSENT_OR_OWN,
    plain: null,
  }),
  'own-key-renews': script('acquire', 'finding the own token counts as a yes, and gives the key the whole TTL again', {
    onto: 'missing-or-own',
    renews: true,
    lua: SET_OWN_OR_MISSING,
    plain: null,
  }),
  'extends-missing': script('extend', 'an extension sets keys again that are missing', {
    onto: 'own-or-missing',
    lua: SET_OWN_OR_MISSING,
    plain: false,
  }),
  // Sound, and offered by the lock for production.
  'extension-heals': script(
    'extend',
    'an extension sets keys again that are missing, and shortens none',
    HEALING.scripts.extend,
  ),
  'extends-present': script(
    'extend',
    'an extension gives any key that is there a new expiry, without a look at its token',
    { onto: 'present', lua: EXPIRE_PRESENT, plain: true },
  ),
  'extends-any': script('extend', 'an extension sets any key', { onto: 'any', lua: SET_ANY, plain: true }),
  'deletes-any': script('release', 'a release deletes any key', {
    onto: 'any',
    asks: null,
    lua: DELETE_ANY,
    plain: true,
  }),
  'gets-then-deletes': script('release', 'a release reads the key, and then deletes it', {
    onto: 'any',
    asks: IS_OWN,
    lua: DELETE_ANY,
    plain: true,
  }),
};
