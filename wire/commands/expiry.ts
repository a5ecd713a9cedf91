import { at, option, wide } from '../arguments.js';
import { type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { fail, printed } from '../reply.js';
import { MAX_INTEGER, MIN_INTEGER } from '../text.js';

type Form = 'expire' | 'pexpire' | 'expireat' | 'pexpireat';

function optionsOf(argv: readonly string[]): ReadonlySet<string> {
  const options = new Set<string>();
  for (let i = 3; i < argv.length; i++) {
    const word = option(argv, i);
    if (!['nx', 'xx', 'gt', 'lt'].includes(word)) throw fail(`Unsupported option ${printed(at(argv, i))}`);
    options.add(word);
  }
  if (options.has('nx') && options.size > 1)
    throw fail('NX and XX, GT or LT options at the same time are not compatible');
  if (options.has('gt') && options.has('lt')) throw fail('GT and LT options at the same time are not compatible');
  return options;
}

/** `EXPIRE key seconds [NX|XX|GT|LT]` and its kin. */
const expire =
  (name: Form): Handler =>
  (argv, { keys, instance }) => {
    const options = optionsOf(argv);
    const invalid = fail(`invalid expire time in '${name}' command`);
    const unit = name.startsWith('p') ? 1n : 1000n;
    const given = wide(at(argv, 2)) * unit;
    const when = given + (name.endsWith('at') ? 0n : BigInt(instance.nowMs));
    if (given > MAX_INTEGER || given < MIN_INTEGER || when > MAX_INTEGER) throw invalid;
    const key = at(argv, 1);
    const entry = keys.find(key);
    if (entry === undefined) return 0;
    const [at_, current] = [Number(when), entry.expiresAt];
    if (options.has('nx') && current !== NEVER) return 0;
    if (options.has('xx') && current === NEVER) return 0;
    if (options.has('gt') && (current === NEVER || at_ <= current)) return 0;
    if (options.has('lt') && current !== NEVER && at_ >= current) return 0;
    if (at_ <= instance.nowMs) keys.remove(key);
    else keys.expire(key, at_);
    return 1;
  };

/** `TTL key` and its kin. */
const ttl =
  (unitMs: 1 | 1000, isAbsolute: boolean): Handler =>
  (argv, { keys, instance }) => {
    const entry = keys.find(at(argv, 1));
    if (entry === undefined) return -2;
    if (entry.expiresAt === NEVER) return -1;
    const left = Math.max(0, isAbsolute ? entry.expiresAt : entry.expiresAt - instance.nowMs);
    return unitMs === 1 ? left : Math.floor((left + 500) / 1000);
  };

const persist: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  if ((keys.find(key)?.expiresAt ?? NEVER) === NEVER) return 0;
  keys.expire(key, NEVER);
  return 1;
};

/** Commands on the expiry of keys. */
export const EXPIRY: Readonly<Record<string, Row>> = {
  expire: [-3, 'w', expire('expire'), KEY],
  expireat: [-3, 'w', expire('expireat'), KEY],
  expiretime: [2, 'r', ttl(1000, true), KEY],
  persist: [2, 'w', persist, KEY],
  pexpire: [-3, 'w', expire('pexpire'), KEY],
  pexpireat: [-3, 'w', expire('pexpireat'), KEY],
  pexpiretime: [2, 'r', ttl(1, true), KEY],
  pttl: [2, 'r', ttl(1, false), KEY],
  ttl: [2, 'r', ttl(1000, false), KEY],
};
