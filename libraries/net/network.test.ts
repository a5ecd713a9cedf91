import dns from 'node:dns/promises';
import net from 'node:net';
import tls from 'node:tls';
import { describe, expect, it } from 'vitest';
import { type Fault, plainCluster, type Schedule } from '../../scenarios/index.js';
import { lockFactoryOf } from '../lock-factory.js';
import { replayLibraries } from '../run.js';
import { plan, scheduleOf } from '../testing/schedules.js';
import { expectSafe } from '../testing.js';

type Script = (note: (what: string) => void) => void;

const startedAt = { ms: 0 };

/** What a process notes that runs this, each with the ms since it began. */
async function noted(script: Script, faults: readonly Fault[] = [], change: Partial<Schedule> = {}): Promise<string[]> {
  const seen: string[] = [];
  const makeLock = () => ({
    acquire() {
      startedAt.ms = performance.now();
      script((what) => seen.push(`${Math.round(performance.now() - startedAt.ms)} ${what}`));
      return null;
    },
  });
  const subject = await lockFactoryOf('a client', makeLock, undefined);
  seen.length = 0;
  const { uncaught } = await replayLibraries(subject, scheduleOf([[plan(0, null)]], { faults, ...change }));
  if (uncaught.length > 0) throw uncaught[0]?.error;
  return seen;
}

/** Notes what becomes of a connection to n0. */
function watched(note: (what: string) => void): net.Socket {
  const socket = net.connect({ host: 'n0', port: 6379 });
  socket.on('connect', () => note('connect'));
  socket.on('data', (data) => note(`data ${data.toString().trim()}`));
  socket.on('end', () => note('end'));
  socket.on('error', (error) => note(`error ${error.message}`));
  socket.on('close', (hadError) => note(`close ${hadError}`));
  return socket;
}

const PING = '*1\r\n$4\r\nPING\r\n';
const crash = { kind: 'crash', node: 'n0', restartAfterUs: null } as const;

describe('a connection', () => {
  it('opens, carries bytes both ways and ends', async () => {
    const seen = await noted((note) => {
      const socket = watched(note);
      expect([socket.connecting, socket.pending, socket instanceof net.Socket]).toEqual([true, true, true]);
      socket.write('PI');
      socket.write('NG\r\n');
      socket.once('data', () => {
        expect([socket.remoteAddress, socket.remotePort, socket.pending]).toEqual(['10.0.0.1', 6379, false]);
        socket.end();
      });
    });
    expect(seen).toEqual(['2 connect', '4 data +PONG', '6 end', '6 close false']);
  });

  it.each([
    ['*3\r\n$5\r\nBLPOP\r\n$1\r\nk\r\n$3\r\n0.1\r\n', '*-1'],
    ['*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$3\r\n100\r\n', ':0'],
  ])('carries what a command answers that has waited in vain, and goes on: %j', async (bytes, answer) => {
    const script: Script = (note) => {
      watched(note).write(bytes + PING);
    };
    expect(await noted(script)).toEqual(['2 connect', `104 data ${answer}`, '104 data +PONG']);
    // By the clock of the node.
    const clocks = [{ process: 'n0', offsetUs: 0, ratePpm: 500_000 }];
    const fast = { cluster: { ...plainCluster(5), clocks } };
    expect(await noted(script, [], fast)).toEqual(['2 connect', `71 data ${answer}`, '71 data +PONG']);
  });

  it('carries out what was sent behind a command that waits when that is answered, in order', async () => {
    const seen = await noted((note) => {
      const waiter = watched(note);
      const wait = ['BLPOP', 'k', '0'].map((it) => `$${it.length}\r\n${it}\r\n`).join('');
      waiter.write(`*3\r\n${wait}`);
      setTimeout(() => waiter.write('SET lock mine NX\r\n'), 10);
      setTimeout(() => waiter.write('GET lock\r\n'), 12);
      const other = net.createConnection(6379, 'n0');
      setTimeout(() => other.write('SET lock other NX PX 30\r\n'), 20);
      setTimeout(() => other.write('RPUSH k 1\r\n'), 60);
    });
    const popped = ['*2', '$1', 'k', '$1', '1'].join('\r\n');
    expect(seen).toEqual(['2 connect', `62 data ${popped}`, '63 data +OK', '63 data $4\r\nmine']);
  });

  it('carries what a replica has, when it has it', async () => {
    const script: Script = (note) => {
      watched(note).write('*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$3\r\n100\r\n');
    };
    const behind = (replicaLagUs: number) => ({ cluster: { ...plainCluster(5), replicaLagUs } });
    expect(await noted(script, [], behind(7_000))).toEqual(['2 connect', '11 data :1']);
    expect(await noted(script, [], behind(700_000))).toEqual(['2 connect', '104 data :0']);
  });

  it('is refused by a machine that is on, whatever was to be turned off while it was down', async () => {
    const down = { ...crash, atUs: 100_000, restartAfterUs: 100_000 };
    const faults = [down, { ...crash, atUs: 150_000, power: true }, { ...crash, atUs: 300_000 }];
    expect(await noted((note) => void setTimeout(watched, 400, note), faults)).toEqual([
      '402 error connect ECONNREFUSED 10.0.0.1:6379',
      '402 close true',
    ]);
  });

  it('keeps the order of what is sent over it, and sends again what the network loses', async () => {
    const fate = { client: 'c1', operation: 'read-counter', node: 'n0', direction: 'request' } as const;
    const script: Script = (note) => {
      watched(note).write(PING + PING);
    };
    const lossOf = (send: number) => ({ fates: [{ ...fate, send, lost: true }] });
    expect(await noted(script, [], lossOf(0))).toEqual(['2 connect', '204 data +PONG', '204 data +PONG']);
    expect(await noted(script, [], lossOf(1))).toEqual(['2 connect', '4 data +PONG', '204 data +PONG']);
  });

  it('is refused by a machine whose server is dead, and met with silence by one that is off', async () => {
    const dead = await noted(watched, [{ ...crash, atUs: 0 }]);
    expect(dead).toEqual(['2 error connect ECONNREFUSED 10.0.0.1:6379', '2 close true']);
    expect(await noted(watched, [{ ...crash, atUs: 0, power: true }])).toEqual([]);
    const back = await noted(watched, [{ ...crash, atUs: 0, power: true, restartAfterUs: 2_000_000 }]);
    expect(back).toEqual(['3002 connect']);
  });

  it('is closed as the server dies, and stays half open as its machine goes off', async () => {
    const script: Script = (note) => {
      const socket = watched(note);
      setTimeout(() => socket.write(PING), 50);
    };
    expect(await noted(script, [{ ...crash, atUs: 10_000 }])).toEqual(['2 connect', '11 end', '11 close false']);
    expect(await noted(script, [{ ...crash, atUs: 10_000, power: true }])).toEqual(['2 connect']);
    // The kernel sends the PING again 200, 400 and 800 ms after each other: the machine that is back does not know of it.
    const back = await noted(script, [{ ...crash, atUs: 10_000, power: true, restartAfterUs: 1_000_000 }]);
    expect(back).toEqual(['2 connect', '1452 error read ECONNRESET', '1452 close true']);
  });

  it('is silent as long as a partition lasts, or the server is paused', async () => {
    const script: Script = (note) => {
      watched(note).write(PING);
    };
    const cut = { kind: 'partition', from: ['c1'], to: ['n0'], oneWay: false, atUs: 3_000, forUs: 500_000 } as const;
    expect(await noted(script, [{ ...cut, edge: 'before' }])).toEqual(['2 connect', '604 data +PONG']);
    const hung = { kind: 'pause', process: 'n0', atUs: 0, forUs: 700_000 } as const;
    expect(await noted(script, [hung])).toEqual(['2 connect', '701 data +PONG']);
  });

  it('is read later by a process that was paused, all at once', async () => {
    const script: Script = (note) => {
      watched(note).write(PING);
    };
    const paused = { kind: 'pause', process: 'c1', atUs: 1_000, forUs: 99_000 } as const;
    expect(await noted(script, [paused])).toEqual(['100 connect', '102 data +PONG']);
  });

  it('breaks as the adversary says, and its command is not sent again by anybody but the client', async () => {
    const fate = { client: 'c1', operation: 'acquire', node: 'n0', direction: 'request', resendAfterUs: 500 } as const;
    const script: Script = (note) => {
      const socket = watched(note);
      socket.on('connect', () => socket.write('SET a 1 NX\r\n'));
    };
    const seen = await noted(script, [], { fates: [fate] });
    expect(seen).toEqual(['2 connect', '3 error read ECONNRESET', '3 close true']);
  });

  it('carries bytes that are no text', async () => {
    const value = Buffer.from([0xff, 0x61, 0xc3, 0x28, 0xed, 0xb3, 0xbf]);
    const seen = await noted((note) => {
      const socket = net.connect({ host: 'n0', port: 6379 });
      socket.on('data', (data) => note(data.toString('hex')));
      const command = (...words: (string | Buffer)[]): Buffer =>
        Buffer.concat([
          Buffer.from(`*${words.length}\r\n`),
          ...words.flatMap((it) => [Buffer.from(`$${it.length}\r\n`), Buffer.from(it), Buffer.from('\r\n')]),
        ]);
      socket.write(command('SET', 'a', value));
      socket.write(command('GET', 'a'));
      socket.write(command('STRLEN', 'a'));
    });
    expect(seen).toEqual([
      `4 ${Buffer.from('+OK\r\n').toString('hex')}`,
      `4 ${Buffer.from('$7\r\n').toString('hex')}${value.toString('hex')}0d0a`,
      `4 ${Buffer.from(':7\r\n').toString('hex')}`,
    ]);
  });

  it('tells of time that passes without a byte', async () => {
    const seen = await noted((note) => {
      const socket = watched(note);
      socket.setTimeout(100, () => {
        note('timeout');
        socket.destroy();
      });
    });
    expect(seen).toEqual(['2 connect', '102 timeout', '102 close false']);
  });

  it('pushes to who subscribes what others publish', async () => {
    const seen = await noted((note) => {
      watched(note).write('SUBSCRIBE x\r\n');
      const other = net.createConnection(6379, 'n0');
      setTimeout(() => other.write('PUBLISH x hello\r\n'), 20);
    });
    expect(seen).toEqual([
      '2 connect',
      `4 data ${['*3', '$9', 'subscribe', '$1', 'x', ':1'].join('\r\n')}`,
      `22 data ${['*3', '$7', 'message', '$1', 'x', '$5', 'hello'].join('\r\n')}`,
    ]);
  });
});

describe('names and TLS', () => {
  it('lead to nodes', async () => {
    const seen = await noted((note) => {
      const secure = tls.connect({ host: '10.0.0.2', port: 6379 }, () => note(`secure ${secure.encrypted}`));
      const own = new net.Socket();
      own.connect(6379, 'n1', () => note('own'));
      void dns.lookup('n2').then(({ address }) => note(address));
      void dns.lookup('elsewhere').catch(({ code }: NodeJS.ErrnoException) => note(code ?? ''));
    });
    expect(seen).toEqual(['0 10.0.0.3', '0 ENOTFOUND', '2 secure true', '2 own']);
  });

  it('lead nowhere else', async () => {
    const elsewhere = () => ({
      acquire: () => {
        net.connect(6379, 'localhost');
        return null;
      },
    });
    await expect(expectSafe(elsewhere, { runs: 1 })).rejects.toThrow(
      'the client connects to localhost:6379, which is no node of the simulated world: take addresses, as redis://n0:6379',
    );
  });

  it('are native outside of simulated processes', async () => {
    const listener = net.createServer((socket) => socket.end('hello')).listen(0, '127.0.0.1');
    await new Promise((resolve) => listener.once('listening', resolve));
    const { port } = listener.address() as net.AddressInfo;
    const text = await new Promise((resolve) => net.connect(port, '127.0.0.1').once('data', (it) => resolve(`${it}`)));
    listener.close();
    expect(text).toBe('hello');
  });
});

describe('fetch', () => {
  const post = async (path: string, body: unknown, note: (what: string) => void, headers = {}): Promise<void> => {
    const response = await fetch(`https://n1${path}`, { method: 'POST', body: JSON.stringify(body), headers });
    note(`${response.status} ${await response.text()}`);
  };

  it('reaches the REST interface of nodes', async () => {
    const seen = await noted((note) => {
      const run = async (): Promise<void> => {
        await post('', ['SET', 'a', 'é', 'NX'], note);
        await post('', ['GET', 'a'], note);
        await post('', ['GET', 'a'], note, { 'Upstash-Encoding': 'base64' });
        await post('/set/b/1', [], note);
        await post('', ['SET', 'a'], note);
        await post('/pipeline', [['DEL', 'a'], ['NOPE']], note);
        await post(
          '/multi-exec',
          [
            ['INCR', 'b'],
            ['MGET', 'a', 'b'],
          ],
          note,
        );
      };
      void run();
    });
    const nope = "ERR unknown command 'NOPE', with args beginning with: ";
    expect(seen).toEqual([
      '4 200 {"result":"OK"}',
      '6 200 {"result":"é"}',
      '8 200 {"result":"w6k="}',
      '10 200 {"result":"OK"}',
      '12 400 {"error":"ERR wrong number of arguments for \'set\' command"}',
      `14 200 ${JSON.stringify([{ result: 1 }, { error: nope }])}`,
      '16 200 [{"result":2},{"result":[null,"2"]}]',
    ]);
  });

  it.each([
    [
      'a Request',
      () => fetch(new Request('https://n0', { method: 'POST', body: '["PING"]' })),
      'calls fetch with a Request',
    ],
    ['bytes', () => fetch('https://n0', { method: 'POST', body: Buffer.from('["PING"]') }), 'calls fetch with a body'],
    ['another host', () => fetch('https://db.example:8443/get/a'), 'connects to db.example:8443, which is no node'],
  ])('refuses %s by name', async (_, ask, message) => {
    await expect(expectSafe(() => ({ acquire: () => ask() }), { runs: 1 })).rejects.toThrow(message);
  });

  it('fails where its connection does, and ends as its signal aborts', async () => {
    const script: Script = (note) => {
      const told = ({ name, message, cause }: Error): void => note(`${name} ${message} ${cause ?? ''}`);
      post('', ['PING'], note).catch(told);
      fetch('https://n0', { method: 'POST', body: '["PING"]', signal: AbortSignal.timeout(50) }).catch(told);
    };
    const dead = { kind: 'crash', node: 'n1', atUs: 0, restartAfterUs: null } as const;
    expect(await noted(script, [dead, { ...dead, node: 'n0', power: true }])).toEqual([
      '2 TypeError fetch failed Error: connect ECONNREFUSED 10.0.0.2:6379',
      '50 TimeoutError The operation was aborted due to timeout ',
    ]);
  });
});
