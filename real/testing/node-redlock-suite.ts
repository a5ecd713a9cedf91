import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { transform } from 'esbuild';
import { Redis } from 'ioredis';
import { type InstalledLock, installLock } from './installed-lock.js';

/*
 * node-redlock's own tests, verbatim, from a checkout of it, with its own lock and with `lockstep-redlock/compat`:
 * `npm run -s conformance:node-redlock -- path/to/node-redlock [--rounds 3]`. Linux alone: each server has an address of its
 * own behind 127.0.0.1. One test runs at a time: most say that a TTL may be off by 200 ms, but allow 99 ms of the machine, which
 * is what their TTL leaves over of a division by 200. Ends with 1 if a test fails with this lock that passes with its own.
 */

/** The hosts of its docker-compose.yml, by the servers of each cluster. */
const INSTANCES = [
  'redis-single-instance',
  'redis-multi-instance-a',
  'redis-multi-instance-b',
  'redis-multi-instance-c',
];
const CLUSTERS = ['redis-single-cluster', 'redis-multi-cluster-a', 'redis-multi-cluster-b', 'redis-multi-cluster-c'];
const PORT = 6379;
const SLOTS = 16_384;
const MASTERS = 3;

const addressOf = (group: number, place: number): string => `127.7.${group}.${place}`;

interface Servers extends AsyncDisposable {
  /** Where each host is. */
  readonly hosts: Readonly<Record<string, string>>;
}

async function startServers(folder: string): Promise<Servers> {
  const children: ChildProcess[] = [];
  const hosts: Record<string, string> = {};
  const start = async (host: string, address: string, more: readonly string[]): Promise<void> => {
    hosts[host] = address;
    const options = [
      '--bind',
      address,
      '--port',
      String(PORT),
      '--save',
      '',
      '--dir',
      folder,
      '--cluster-announce-ip',
      address,
      ...more,
    ];
    children.push(spawn('redis-server', options, { stdio: 'ignore' }));
    while (!(await listens(address))) await sleep(50);
  };
  for (const [place, host] of INSTANCES.entries()) await start(host, addressOf(0, place + 1), []);
  for (const [group, name] of CLUSTERS.entries()) {
    const addresses = Array.from({ length: MASTERS }, (_, place) => addressOf(group + 1, place + 1));
    for (const [place, address] of addresses.entries()) {
      const files = ['--cluster-enabled', 'yes', '--cluster-config-file', `${name}-${place}.conf`];
      await start(`${name}-${place + 1}`, address, files);
    }
    await joinCluster(addresses);
  }
  return {
    hosts,
    [Symbol.asyncDispose]: async () => {
      for (const child of children) child.kill('SIGKILL');
    },
  };
}

function listens(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(PORT, address, () => resolve(true));
    socket.on('connect', () => socket.destroy());
    socket.on('error', () => resolve(false));
  });
}

/** Shares the slots among masters. */
async function joinCluster(addresses: readonly string[]): Promise<void> {
  const clients = addresses.map((host) => new Redis({ host, port: PORT }));
  const share = Math.ceil(SLOTS / clients.length);
  for (const [place, client] of clients.entries()) {
    await client.cluster('ADDSLOTSRANGE', place * share, Math.min(SLOTS, (place + 1) * share) - 1);
    await client.config('SET', 'cluster-node-timeout', 60_000);
    for (const address of addresses) await client.cluster('MEET', address, PORT);
  }
  for (const client of clients) {
    while (!/state:ok[\s\S]*known_nodes:3/.test(String(await client.cluster('INFO')))) await sleep(100);
    client.disconnect();
  }
}

/** The tests as they are: only their types are removed, and names of hosts lead here. */
async function prepare(lock: InstalledLock, checkout: string, { hosts }: Servers): Promise<void> {
  for (const name of ['single.test', 'multi.test', 'index']) {
    const text = readFileSync(join(checkout, 'src', `${name}.ts`), 'utf8');
    const { code } = await transform(text, { loader: 'ts', target: 'node20' });
    lock.write(name === 'index' ? 'own.js' : `${name}.js`, code);
  }
  lock.write(
    'compat.js',
    "export * from 'lockstep-redlock/compat';\nexport { default } from 'lockstep-redlock/compat';\n",
  );
  lock.write(
    'hosts.mjs',
    `import dns from 'node:dns';
     import { syncBuiltinESMExports } from 'node:module';
     const hosts = ${JSON.stringify(hosts)};
     const { lookup } = dns;
     dns.lookup = (host, ...rest) => lookup(hosts[host] ?? host, ...rest);
     syncBuiltinESMExports();`,
  );
}

/** Of each test by its name, what it says where it fails, and `null` where it passes. */
type Results = ReadonlyMap<string, string | null>;

async function runWith(lock: InstalledLock, library: 'own' | 'compat'): Promise<Results> {
  writeFileSync(join(lock.folder, 'index.js'), readFileSync(join(lock.folder, `${library}.js`)));
  const manifest = {
    private: true,
    type: 'module',
    ava: { files: ['*.test.js'], nodeArguments: ['--import=./hosts.mjs'] },
  };
  lock.write('package.json', JSON.stringify(manifest));
  const argv = ['node_modules/ava/entrypoints/cli.mjs', '--tap', '--timeout', '2m', '--serial', '--concurrency', '1'];
  const options = { cwd: lock.folder, timeout: 400_000 };
  const { stdout } = await promisify(execFile)(process.execPath, argv, options).catch((error) => {
    if (typeof error.stdout !== 'string' || !error.stdout.includes('\n1..')) throw error;
    return error;
  });
  return resultsOf(stdout);
}

/** Reads TAP. */
function resultsOf(tap: string): Results {
  const results = new Map<string, string | null>();
  for (const block of tap.split(/^(?=(?:not )?ok )/m)) {
    const [, not, name] = /^(not )?ok \d+ - (.*)/.exec(block) ?? [];
    if (name === undefined) continue;
    const why = /^ {2}---\n(.*?)^ {2}\.\.\.$/ms.exec(block)?.[1] ?? '';
    results.set(name, not === undefined ? null : why.replace(/^\s+at:.*/ms, '').trim());
  }
  return results;
}

async function main([checkout = '', , rounds = '1']: readonly string[]): Promise<number> {
  if (!existsSync(join(checkout, 'src', 'single.test.ts'))) {
    process.stderr.write(
      'Give the path of a checkout of node-redlock 5: npm run -s conformance:node-redlock -- path\n',
    );
    return 2;
  }
  await using lock = await installLock(['ava@4.3.3', 'node-abort-controller@3.1.1', 'ioredis']);
  await using servers = await startServers(lock.folder);
  await prepare(lock, checkout, servers);
  let isWorse = false;
  for (let round = 1; round <= Number(rounds); round++) {
    const [own, compat] = [await runWith(lock, 'own'), await runWith(lock, 'compat')];
    for (const [name, why] of compat) {
      const ofOwn = own.get(name);
      process.stdout.write(
        `${why === null ? 'passes' : 'FAILS '}  own ${ofOwn === null ? 'passes' : 'FAILS '}  ${name}\n`,
      );
      for (const text of [why, ofOwn]) if (text) process.stdout.write(`${text.replace(/^/gm, '      ')}\n`);
      if (why !== null && ofOwn === null) isWorse = true;
    }
    if (compat.size < own.size) isWorse = true;
    process.stdout.write(
      `round ${round}: ${[...compat.values()].filter((it) => it === null).length} of ${own.size} pass\n`,
    );
  }
  return isWorse ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
