import { spawnSync } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { atExit } from './at-exit.js';
import { Clients, probe } from './clients.js';
import { provisionOf } from './provision-of.js';
import { type Engine, reasonOf, ServerContainer } from './server-container.js';
import { type Persistence, type Provision, ProvisionError } from './types.js';

const DEFAULT_IMAGE = 'redis:7-alpine';
const PROBE_MS = 2000;
const REMOVE_MS = 10_000;

/**
 * The Docker engine that testcontainers finds (`DOCKER_HOST` and its other settings are its own), with the image that
 * `LOCKSTEP_REDIS_IMAGE` names, by default `redis:7-alpine`, pulled if the engine does not have it.
 *
 * @returns The error to throw if there are no other nodes, where the package, the engine or the image is missing.
 */
export async function findEngine(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Engine | ProvisionError> {
  // Only here: most who run locks have nodes already, and the package is neither small nor always installed.
  const testcontainers = await settled(() => import('testcontainers'));
  if ('reason' in testcontainers) {
    return missing('the package testcontainers is not installed', testcontainers.reason);
  }
  const client = await settled(() => testcontainers.value.getContainerRuntimeClient());
  if ('reason' in client) return missing('testcontainers reaches no Docker engine', client.reason);
  const image = env.LOCKSTEP_REDIS_IMAGE || DEFAULT_IMAGE;
  const had = await settled(async () => {
    const name = testcontainers.value.ImageName.fromString(image);
    await client.value.image.pull(name);
    // A pull that breaks off midway does not reject.
    if (!(await client.value.image.exists(name))) throw new Error('the pull broke off');
  });
  if ('reason' in had) return missing(`the engine has no image ${image} and cannot pull it`, had.reason);
  // It starts with the first container, to remove those of a process that was killed, and needs an image of its own.
  const reaper = await settled(() => testcontainers.value.getReaper(client.value));
  if ('reason' in reaper) {
    return missing(
      'testcontainers cannot start its reaper, which TESTCONTAINERS_RYUK_DISABLED=true does without',
      reaper.reason,
    );
  }
  const { host } = client.value.info.containerRuntime;
  return {
    testcontainers: testcontainers.value,
    client: client.value,
    image,
    host: isThisMachine(host) ? '127.0.0.1' : host,
  };
}

/** Nodes as containers of our own, removed when they are stopped or this process ends. */
export async function provisionContainers(engine: Engine, nodes: number, persistence: Persistence): Promise<Provision> {
  const servers = Array.from({ length: nodes }, (_, i) => new ServerContainer(`n${i}`, engine, persistence));
  const clients = new Clients();
  const forget = atExit(() => removeNow(servers));
  const stop = async () => {
    clients.close();
    await Promise.all(servers.map((server) => server.remove()));
    forget();
  };
  // All are waited for even if one fails: what is still being started could not be removed.
  const starts = await Promise.allSettled(servers.map((server) => server.start()));
  try {
    for (const start of starts) if (start.status === 'rejected') throw start.reason;
    const description = `${nodes} × ${engine.image} (${await versionAt(servers[0]?.url)}) in containers on ${engine.host}`;
    return provisionOf({ source: 'containers', description, clocks: false }, servers, clients, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

/** At the end of our own process nothing can be waited for; the engine's own program, where it is, does it at once. */
function removeNow(servers: readonly ServerContainer[]): void {
  const ids = servers.flatMap((server) => server.id ?? []);
  if (ids.length === 0) return;
  spawnSync('docker', ['rm', '--force', '--volumes', ...ids], { stdio: 'ignore', timeout: REMOVE_MS });
}

async function versionAt(url: string | undefined): Promise<string> {
  const info = url === undefined ? '' : await probe(url, PROBE_MS);
  const [, program, version] = /^(valkey|redis)_version:(\S+)/m.exec(info) ?? [];
  return program === undefined ? 'version unknown' : `${program} ${version}`;
}

/** In a container that runs an engine of its own, testcontainers says the address of that engine's bridge. */
function isThisMachine(host: string): boolean {
  const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return host === 'localhost' || own.some(({ address }) => address === host);
}

function missing(what: string, reason: unknown): ProvisionError {
  const needs = 'Redis in containers needs the package testcontainers and a Docker engine with the image';
  return new ProvisionError(`${needs}, but ${what} (${reasonOf(reason)}).`, { cause: reason });
}

async function settled<T>(attempt: () => Promise<T>): Promise<{ value: T } | { reason: unknown }> {
  try {
    return { value: await attempt() };
  } catch (reason) {
    return { reason };
  }
}
