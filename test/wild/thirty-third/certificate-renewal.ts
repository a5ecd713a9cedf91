import { randomUUID, X509Certificate } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import Redlock, { ExecutionError } from "redlock5";

const THIRTY_DAYS = 30 * 24 * 60 * 60 * 1000;
// volume shared by all edge hosts
const CERT_DIR = process.env.CERT_DIR ?? "/srv/certs";

export interface AcmeClient {
  order(domain: string, signal: AbortSignal): Promise<{ fullchain: string; privateKey: string }>;
}

// LOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
const nodes = (process.env.LOCK_NODES ?? "")
  .split(",")
  .filter(Boolean)
  .map((url) => new Redis(url, { commandTimeout: 1_000, maxRetriesPerRequest: 0 }));

if (nodes.length < 3) throw new Error("LOCK_NODES must name at least three independent nodes");
nodes.forEach((node) => node.on("error", (err) => console.warn("lock node:", err.message)));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 300,
  retryJitter: 200,
  automaticExtensionThreshold: 15_000,
});

redlock.on("error", (err) => {
  if (!(err instanceof ExecutionError)) console.debug("redlock:", err.message);
});

async function needsRenewal(path: string): Promise<boolean> {
  try {
    const cert = new X509Certificate(await readFile(path));
    return Date.parse(cert.validTo) - Date.now() < THIRTY_DAYS;
  } catch {
    return true;
  }
}

async function install(domain: string, bundle: string, signal: AbortSignal): Promise<void> {
  const temp = join(CERT_DIR, `.${domain}.${randomUUID()}`);
  try {
    await writeFile(temp, bundle, { mode: 0o600, signal });
    signal.throwIfAborted();
    await rename(temp, join(CERT_DIR, `${domain}.pem`));
  } finally {
    await rm(temp, { force: true });
  }
}

export async function renew(acme: AcmeClient, domain: string): Promise<boolean> {
  const target = join(CERT_DIR, `${domain}.pem`);
  if (!(await needsRenewal(target))) return false;

  return redlock.using([`cert-renewal:${domain}`], 45_000, async (signal) => {
    // another host may have been faster
    if (!(await needsRenewal(target))) return false;
    const { fullchain, privateKey } = await acme.order(domain, signal as AbortSignal);
    if (signal.aborted) throw signal.error ?? new Error("lock lost");
    await install(domain, `${fullchain}\n${privateKey}\n`, signal as AbortSignal);
    return true;
  });
}

export async function renewAll(acme: AcmeClient, domains: string[]): Promise<void> {
  for (const domain of domains) {
    try {
      if (await renew(acme, domain)) console.log(`renewed ${domain}`);
    } catch (err) {
      if (err instanceof ExecutionError) console.log(`${domain}: ${err.message} Next run will look again.`);
      else console.error(`${domain}: renewal failed`, err);
    }
  }
}
