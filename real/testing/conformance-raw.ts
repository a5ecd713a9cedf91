import type { Redis } from 'ioredis';

/** Commands around those of a lock, each sequence a line: what an adapter may come to rely on without noticing. */
const SEQUENCES: readonly string[] = `
set k v PX 1000 NX
set k v PX 0
set k v PX -1 NX
set k v PX abc
set k v PX 1.5
set k v NX XX
set k v; set k w PX 1000 NX GET
set k v PX 1000; set k w KEEPTTL; get k
set k v PX 1000; set k w; pttl k
get k
set k v; get k
hset k f v; get k
hset k f v; set k v NX
hset k f v; set k v; get k
pttl k
set k v; pttl k
pexpire k 1000
set k v; pexpire k -1; exists k
set k v; pexpire k 0; exists k
set k v; pexpire k abc
set k v PX 1000; pexpire k 5000 LT
set k v PX 9000; pexpire k 5000 GT
set k v; pexpireat k 1; exists k
set k v; persist k
set k v; del k k
set k v; exists k k
set k v; getdel k; exists k
script LOAD <return 1>
script EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db
evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
evalsha ffffffffffffffffffffffffffffffffffffffff 0
eval <return 1> 0; evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
eval <return nil> 0
eval <return true> 0
eval <return false> 0
eval <return 1.9> 0
eval <return -1.9> 0
eval <return 'a'> 0
eval <return {1, 2, nil, 3}> 0
eval <return redis.status_reply('FINE')> 0
eval <return redis.error_reply('MINE own')> 0
eval <return redis.call('get')> 0
eval <return redis.call('no-such')> 0
eval <return redis.pcall('no-such').err ~= nil> 0
eval <return redis.call('get', KEYS[1]) == false> 1 k
eval <return redis.call('set', KEYS[1], 'v', 'NX') == false> 1 k
eval <return redis.call('set', KEYS[1], 'v').ok> 1 k
eval <return type(redis.call('exists', KEYS[1]))> 1 k
eval <return type(ARGV[1])> 0 5
eval <return #KEYS> 1 k
eval <return redis.sha1hex('')> 0
eval <return cjson.encode({1})> 0
eval <x = 1> 0
eval <return> 0
eval <retrun 1> 0
eval <return 1> -1
eval <return 1> 2 k
`
  .trim()
  .split('\n');

/** What each sequence answers, in order, as `<sequence>  ⇒  <answers>`; errors by their code. */
export async function rawAnswers(client: Redis, prefix: string): Promise<string[]> {
  const found: string[] = [];
  for (const [i, sequence] of SEQUENCES.entries()) {
    const key = `${prefix}:${i}`;
    const answers: string[] = [];
    for (const command of sequence.split('; ')) answers.push(await answer(client, command, key));
    await client.del(key);
    found.push(`${sequence}  ⇒  ${answers.join(', ')}`);
  }
  return found;
}

async function answer(client: Redis, command: string, key: string): Promise<string> {
  const [name = '', ...args] = (command.match(/<[^>]*>|\S+/g) ?? []).map((word) => {
    return word === 'k' ? key : word.replace(/^<(.*)>$/, '$1');
  });
  try {
    // The mock has no `call`.
    const method: unknown = Reflect.get(client, name);
    if (typeof method !== 'function') return 'no such command';
    return JSON.stringify(await Reflect.apply(method, client, args)) ?? 'nothing';
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return /^[A-Z]+ /.exec(message)?.[0].trim() ?? 'an error without a code';
  }
}
