import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import {
  clockOrderLines,
  fsyncLines,
  holdBackLines,
  type Lines,
  noEvictionLines,
  noPromotionLines,
  slewLines,
} from '../advise/lines.js';
import type { Supervisor } from '../advise/system.js';
import { findServerProgram } from '../real/provisioner/processes.js';
import { canRun, canRunOnRedis } from '../real/testing/can-run.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

/*
 * Every line that is advised, in a file of the program that it is for, with what it is said to do.
 */

const PROGRAM = findServerProgram(process.env.PATH) ?? 'redis-server';
const CLI = PROGRAM.replace(/redis-server$/, 'redis-cli');
const REDIS = '127.0.0.1';
const running: ChildProcess[] = [];

afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, REDIS, resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** A redis.conf with these lines, in a folder of its own. */
async function confWith(lines: readonly string[]): Promise<{ conf: string; port: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-advise-'));
  const port = await freePort();
  const conf = join(folder, 'redis.conf');
  writeFileSync(conf, [`port ${port}`, `bind ${REDIS}`, `dir ${folder}`, 'save ""', ...lines, ''].join('\n'));
  return { conf, port };
}

function start(command: string, args: readonly string[]): ChildProcess {
  const child = spawn(command, args, { stdio: 'ignore' });
  running.push(child);
  return child;
}

/** A client of a server that is there, as soon as it is. */
async function connected(port: number): Promise<Redis> {
  const redis = new Redis(port, REDIS, { retryStrategy: () => 20, maxRetriesPerRequest: null });
  redis.on('error', () => {});
  await redis.ping();
  return redis;
}

async function killed(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
}

const title = 'lines for redis.conf and for supervisors';

describe.skipIf(!canRunOnRedis(title, 'processes'))(title, () => {
  it.each([
    [fsyncLines().lines, 'survives'],
    [[], 'is lost'],
  ])('with %j a vote that was acknowledged %s when the process is killed', async (lines, fate) => {
    const { conf, port } = await confWith(lines);
    const first = start(PROGRAM, [conf]);
    const before = await connected(port);
    expect(await before.set('lock', 'token', 'PX', 600_000, 'NX')).toBe('OK');
    before.disconnect();
    await killed(first);
    start(PROGRAM, [conf]);
    const after = await connected(port);
    expect(await after.get('lock')).toBe(fate === 'survives' ? 'token' : null);
    after.disconnect();
  });

  it.each([
    [noEvictionLines().lines, 'kept'],
    [['maxmemory-policy volatile-lru'], 'evicted'],
  ])('with %j the key of a lock is %s when memory is short', async (lines, fate) => {
    // Redis looks at a few keys alone, and at their age in whole seconds.
    const { conf, port } = await confWith(['maxmemory 3mb', 'maxmemory-samples 64', ...lines]);
    start(PROGRAM, [conf]);
    const redis = await connected(port);
    await redis.set('lock', 'token', 'PX', 600_000);
    await sleep(2_000);
    const filler = 'x'.repeat(100_000);
    for (let i = 0; i < 60; i++) await redis.set(`cache:${i}`, filler, 'PX', 600_000).catch(() => {});
    // The least recently used goes first.
    expect(await redis.get('lock')).toBe(fate === 'kept' ? 'token' : null);
    redis.disconnect();
  });

  it.each([fsyncLines(), noEvictionLines(), noPromotionLines()])(
    'what is run then sets $lines at once',
    async (part) => {
      const { lines, command = '' } = part;
      const { conf, port } = await confWith([]);
      start(PROGRAM, [conf]);
      const redis = await connected(port);
      // On Debian redis-cli is beside the server.
      const typed = command.replaceAll('redis-cli', `${CLI} -p ${port}`);
      expect(execFileSync('sh', ['-c', typed], { encoding: 'utf8' })).toMatch(/^(OK\s+)+$/);
      for (const line of lines) {
        const [name = '', value] = line.split(' ');
        expect(await redis.config('GET', name)).toEqual([name, value]);
      }
      redis.disconnect();
    },
  );

  it('a node that is told so while it runs keeps its votes from then on', async () => {
    const { lines, command = '' } = fsyncLines();
    const { conf, port } = await confWith([]);
    const first = start(PROGRAM, [conf]);
    const before = await connected(port);
    expect(await before.set('lock', 'token', 'PX', 600_000, 'NX')).toBe('OK');
    appendFileSync(conf, `${lines.join('\n')}\n`);
    execFileSync('sh', ['-c', command.replaceAll('redis-cli', `${CLI} -p ${port}`)]);
    before.disconnect();
    await killed(first);
    start(PROGRAM, [conf]);
    const after = await connected(port);
    expect(await after.get('lock')).toBe('token');
    after.disconnect();
  });

  it('with replica-priority 0 Sentinel promotes no replica', { timeout: 60_000 }, async () => {
    const primary = await confWith([]);
    const replica = await confWith([`replicaof ${REDIS} ${primary.port}`, ...noPromotionLines().lines]);
    const sentinel = await confWith([`sentinel monitor it ${REDIS} ${primary.port} 1`]);
    start(PROGRAM, [primary.conf]);
    start(PROGRAM, [replica.conf]);
    const follower = await connected(replica.port);
    await expect.poll(() => follower.info('replication'), { timeout: 20_000 }).toContain('master_link_status:up');
    expect(await follower.info('replication')).toContain('slave_priority:0');
    start(PROGRAM, [sentinel.conf, '--sentinel']);
    const asked = await connected(sentinel.port);
    await expect.poll(() => asked.call('SENTINEL', 'REPLICAS', 'it'), { timeout: 30_000 }).toHaveLength(1);
    // It has to have asked the replica for its priority first.
    await expect
      .poll(async () => String(await asked.call('SENTINEL', 'REPLICAS', 'it')), { timeout: 30_000 })
      .toContain('slave-priority,0');
    await expect(asked.call('SENTINEL', 'FAILOVER', 'it')).rejects.toThrow('NOGOODSLAVE');
    for (const redis of [follower, asked]) redis.disconnect();
  });

  const DELAY_US = 700_000;

  /** What Compose makes of a text: $$ is $, and a $ alone is an error. */
  function composed(text: string): string {
    expect(text.replaceAll('$$', '')).not.toContain('$');
    return text.replaceAll('$$', () => '$');
  }

  function linesOf(supervisor: Supervisor, delayUs: number): (name: string) => string {
    const lines = holdBackLines({ supervisor, unit: 'redis-server' }, delayUs)?.lines ?? [];
    return (name) => lines.find((it) => it.startsWith(name))?.slice(name.length) ?? '';
  }

  /** What a container is started with, before the command of its own. */
  function wordsOf(supervisor: 'kubernetes' | 'docker', delayUs: number): string[] {
    const after = linesOf(supervisor, delayUs);
    const words = JSON.parse(after(supervisor === 'docker' ? 'entrypoint: ' : 'command: ')) as string[];
    return words.map((it) => (supervisor === 'docker' ? composed(it) : it));
  }

  /** What a supervisor runs at each start, with the server in place of its own command. */
  function startedBy(supervisor: 'systemd' | 'kubernetes' | 'docker', conf: string): ChildProcess {
    if (supervisor === 'systemd') {
      const wait = linesOf(supervisor, DELAY_US)('ExecStartPre=+');
      return start('sh', ['-c', `${wait} && exec "$@"`, 'sh', PROGRAM, conf]);
    }
    const [command = '', ...args] = wordsOf(supervisor, DELAY_US);
    return start(command, [...args, PROGRAM, conf]);
  }

  it.each(['kubernetes', 'docker'] as const)(
    'by %s the script of the image still starts what it starts',
    (supervisor) => {
      const folder = mkdtempSync(join(tmpdir(), 'lockstep-image-'));
      writeFileSync(join(folder, 'docker-entrypoint.sh'), '#!/bin/sh\necho as redis: "$@"\n', { mode: 0o755 });
      const [command = '', ...args] = wordsOf(supervisor, 1000);
      const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
      const started = execFileSync(command, [...args, 'redis-server', 'a b'], { encoding: 'utf8', env });
      expect(started).toBe('as redis: redis-server a b\n');
    },
  );

  it.each(['systemd', 'kubernetes', 'docker'] as const)(
    'by %s a node is held back until its votes are over',
    async (supervisor) => {
      const { conf, port } = await confWith([]);
      const first = startedBy(supervisor, conf);
      const before = await connected(port);
      expect(await before.set('lock', 'token', 'PX', DELAY_US / 1000, 'NX')).toBe('OK');
      const votedAt = performance.now();
      before.disconnect();
      await killed(first);
      startedBy(supervisor, conf);
      const after = await connected(port);
      // Empty, and later than the end of every lock that it voted for.
      expect(performance.now() - votedAt).toBeGreaterThanOrEqual(DELAY_US / 1000);
      expect(await after.get('lock')).toBeNull();
      after.disconnect();
    },
  );
});

function has(program: string): boolean {
  return spawnSync(program, ['--version']).error === undefined;
}

const unit = 'lines for a unit of systemd';
describe.skipIf(!canRun(unit, 'systemd', has('systemd-analyze') ? undefined : 'there is no systemd-analyze'))(
  unit,
  () => {
    /** What systemd says of a unit of Redis with these lines beside it. */
    function verified(lines: readonly string[]): string {
      const folder = mkdtempSync(join(tmpdir(), 'lockstep-unit-'));
      const service = join(folder, 'redis-server.service');
      writeFileSync(service, '[Service]\nExecStart=/bin/sh -c "sleep 1"\nRestart=on-failure\nRestartSec=1\n');
      mkdirSync(`${service}.d`);
      writeFileSync(join(`${service}.d`, 'hold-back.conf'), `${lines.join('\n')}\n`);
      const { stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', service], {
        encoding: 'utf8',
        env: { ...process.env, SYSTEMD_UNIT_PATH: `${folder}:` },
      });
      return `${stdout}${stderr}`;
    }

    it('are understood, and a wrong one is not', () => {
      expect(
        verified(holdBackLines({ supervisor: 'systemd', unit: 'redis-server' }, 7_899_993)?.lines ?? []),
      ).not.toContain('hold-back.conf');
      for (const { lines } of clockOrderLines({ supervisor: 'systemd', unit: 'redis-server' }))
        expect(verified(lines)).not.toContain('hold-back.conf');
      expect(verified(['[Service]', 'ExecStartPree=/bin/sleep 1'])).toContain('hold-back.conf');
    });

    it('are put into a folder that is there then', () => {
      const node = { supervisor: 'systemd', unit: 'redis' } as const;
      const parts = [holdBackLines(node, 7_899_993), ...clockOrderLines(node)];
      for (const part of parts) {
        const [path = ''] = part?.file.split(',') ?? [];
        expect(part?.first).toBe(`mkdir -p ${dirname(path)}`);
        expect(path).toMatch(/^\/etc\/systemd\/system\/redis\.service\.d\/[\w-]+\.conf$/);
      }
    });

    it('name a program that a unit may execute that lets nothing but the server be executed, as that of Debian', () => {
      const lines = holdBackLines({ supervisor: 'systemd', unit: 'redis-server' }, 7_899_993)?.lines ?? [];
      const programs = lines.filter((line) => line.startsWith('ExecStartPre='));
      expect(programs).toEqual(['ExecStartPre=+/bin/sleep 7.9']);
    });
  },
);

const clock = 'lines for chrony';
const noChronyd = !has('chronyd') ? 'there is no chronyd' : process.getuid?.() === 0 ? undefined : 'chronyd needs root';
describe.skipIf(!canRun(clock, 'chrony', noChronyd))(clock, () => {
  it('are understood, and a wrong one is not', () => {
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-chrony-'));
    const conf = join(folder, 'chrony.conf');
    const { lines } = slewLines(500, 100_000);
    writeFileSync(conf, `${lines.join('\n')}\n`);
    const read = execFileSync('chronyd', ['-p', '-f', conf], { encoding: 'utf8' }).trim().split('\n');
    expect(read).toEqual(lines.filter((line) => !line.startsWith('#')));
    writeFileSync(conf, 'maxslewrates 500\n');
    expect(spawnSync('chronyd', ['-p', '-f', conf]).status).not.toBe(0);
  });

  it('hold a unit back until a time server has set the clock', async () => {
    const folder = mkdtempSync('/tmp/lockstep-chronyd-');
    execFileSync('chown', ['_chrony:_chrony', folder]);
    const port = await freePort();
    const chronyd = (name: string, lines: readonly string[]): string => {
      const conf = join(folder, `${name}.conf`);
      const socket = join(folder, `${name}.sock`);
      writeFileSync(
        conf,
        [...lines, 'cmdport 0', `bindcmdaddress ${socket}`, `pidfile ${folder}/${name}.pid`].join('\n'),
      );
      // -x: the clock of this machine is left alone.
      start('chronyd', ['-x', '-d', '-f', conf]);
      return socket;
    };
    const [{ lines }] = clockOrderLines({ supervisor: 'systemd', unit: 'redis-server' }) as [Lines];
    const [, ...args] = lines.find((line) => line.startsWith('ExecStartPre='))?.split(' ') ?? [];
    const { lines: settings } = slewLines(500, 100_000);
    const asked = chronyd('client', [...settings, `server ${REDIS} port ${port} iburst minpoll -2 maxpoll 0`]);
    await expect.poll(() => existsSync(asked)).toBe(true);
    let code: number | null | undefined;
    start('chronyc', ['-h', asked, ...args]).once('exit', (it) => (code = it));
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect(code).toBeUndefined();
    chronyd('server', ['local stratum 8', `port ${port}`, `bindaddress ${REDIS}`, `allow ${REDIS}`]);
    await expect.poll(() => code, { timeout: 60_000, interval: 100 }).toBe(0);
  });
});

const reading = 'advise --redis';
describe.skipIf(!canRunOnRedis(reading, 'processes'))(reading, () => {
  it('reads what nodes know, says what they refuse, and writes nothing', async () => {
    const confs = [
      await confWith(['appendonly yes', 'appendfsync everysec']),
      await confWith(fsyncLines().lines),
      await confWith(['rename-command CONFIG ""']),
    ];
    for (const { conf } of confs) start(PROGRAM, [conf]);
    const clients = await Promise.all(confs.map(({ port }) => connected(port)));
    const urls = confs.map(({ port }) => `redis://${REDIS}:${port}`).join(',');
    const cwd = emptyFolder();
    const { code, stdout, stderr } = await lockstep(['advise', '--redis', urls, '--runs', '0', '--json'], { cwd });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ verdict: 'not', hazards: [{ id: 'memory' }] });
    expect(stderr).toMatch(/everysec\n.*always\n.*refuses CONFIG GET; taken for a managed service/s);
    writeFileSync(join(cwd, 'it.json'), JSON.stringify({ nodes: { count: 3, restart: '9s', supervisor: 'systemd' } }));
    await lockstep(['advise', 'it.json', '--redis', urls, '--runs', '0', '--save', 'seen.json'], { cwd });
    const { nodes } = JSON.parse(readFileSync(join(cwd, 'seen.json'), 'utf8'));
    expect(nodes).toEqual([
      { restart: '9s', supervisor: 'systemd', persistence: 'everysec', evicts: false },
      { restart: '9s', supervisor: 'systemd', persistence: 'always', evicts: false },
      { restart: '9s', supervisor: 'managed', persistence: 'none' },
    ]);
    for (const redis of clients) {
      expect(await redis.dbsize()).toBe(0);
      const used = [...(await redis.info('commandstats')).matchAll(/^cmdstat_([\w|]+)/gm)].map(([, name = '']) => name);
      expect(
        used.filter((it) => !/^(ping|info|config\|get|config|dbsize|select|client\|?\w*|command)$/.test(it)),
      ).toEqual([]);
      redis.disconnect();
    }
    const [first = ''] = urls.split(',');
    const twice = await lockstep(['advise', '--redis', `${first},${first}`], { cwd });
    expect(twice).toMatchObject({ code: 64 });
    expect(twice.stderr).toContain('is a server that is named already');
  });
});
