import { withoutArguments, withoutPassword, withoutPasswords } from '../../text/secrets.js';
import { Clients, probe } from './clients.js';
import { provisionOfOthers } from './provision-of.js';
import { type Provision, ProvisionError } from './types.js';

const PROBE_MS = 2000;

/**
 * Nodes that somebody else runs, from the value of `LOCKSTEP_REDIS`.
 *
 * @throws ProvisionError if a URL is wrong, given twice, or leads nowhere, or if there are too few.
 */
export async function provisionUrls(value: string, nodes: number): Promise<Provision> {
  const urls = parseUrls(value);
  if (urls.length < nodes) {
    throw new ProvisionError(`LOCKSTEP_REDIS names ${urls.length} of the ${nodes} nodes that are needed.`);
  }
  const used = urls.slice(0, nodes);
  const infos = await Promise.all(used.map(reach));
  const versions = new Set(
    infos.map((info) => /^(?:valkey|redis)_version:(.*)$/m.exec(info)?.[1]?.trim() ?? 'unknown'),
  );
  const clients = new Clients();
  return provisionOfOthers(
    {
      source: 'urls',
      description: `${nodes} nodes given by LOCKSTEP_REDIS, version ${[...versions].join(', ')}`,
    },
    used,
    clients,
    (place, options) => clients.make(used[place] ?? '', options),
    'Nodes given by LOCKSTEP_REDIS are not ours to kill, pause or restart.',
  );
}

function parseUrls(value: string): string[] {
  const urls = value
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '');
  const seen = new Map<string, string>();
  for (const url of urls) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed === undefined || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '') {
      throw new ProvisionError(
        `LOCKSTEP_REDIS has ${withoutPassword(url)}, but it must list URLs such as redis://127.0.0.1:6379, with commas between.`,
      );
    }
    const host = parsed.hostname === 'localhost' ? '127.0.0.1' : parsed.hostname;
    const identity = `${host}:${parsed.port || '6379'}${parsed.pathname.replace(/^\/0?$/, '')}`;
    if (seen.has(identity)) {
      throw new ProvisionError(`LOCKSTEP_REDIS has the node ${withoutPassword(url)} twice: it would vote twice.`);
    }
    seen.set(identity, url);
  }
  return urls;
}

async function reach(url: string): Promise<string> {
  try {
    return await probe(url, PROBE_MS);
  } catch (error) {
    const cause = withoutArguments(error);
    const reason = withoutPasswords(cause instanceof Error ? cause.message : String(cause));
    throw new ProvisionError(`LOCKSTEP_REDIS: no Redis answers at ${withoutPassword(url)} (${reason}).`, { cause });
  }
}
