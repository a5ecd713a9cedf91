import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const nodes = (process.env.LOCK_NODES ?? "redis://lock-1:6379,redis://lock-2:6379,redis://lock-3:6379")
  .split(",")
  .map((url) => new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 0, commandTimeout: 250 }));

for (const node of nodes) node.on("error", (err) => console.warn("[lock node]", err.message));

const TTL_MS = 30_000;
const ATTEMPTS = 8;
const MIN_VALIDITY_MS = 15_000;
const SAFETY_MS = 5_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0
`;

interface Grant {
  resource: string;
  token: string;
  validityMs: number;
}

const isFulfilled = <T>(r: PromiseSettledResult<T>): r is PromiseFulfilledResult<T> => r.status === "fulfilled";

async function attempt(resource: string): Promise<Grant | null> {
  const token = randomUUID();
  const startedAt = performance.now();
  const replies = await Promise.allSettled(nodes.map((node) => node.set(resource, token, "PX", TTL_MS, "NX")));

  const answers = replies.filter(isFulfilled);
  const granted = answers.filter((r) => r.value === "OK").length;
  const quorum = Math.floor(answers.length / 2) + 1;

  const drift = Math.round(TTL_MS * 0.01) + 2;
  const validityMs = TTL_MS - (performance.now() - startedAt) - drift;

  if (granted >= quorum && validityMs >= MIN_VALIDITY_MS) return { resource, token, validityMs };
  await releaseEverywhere(resource, token);
  return null;
}

async function releaseEverywhere(resource: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, resource, token)));
}

async function acquire(resource: string): Promise<Grant> {
  for (let i = 0; i < ATTEMPTS; i++) {
    const grant = await attempt(resource);
    if (grant) return grant;
    await sleep(150 + Math.random() * 350);
  }
  throw new Error(`could not lock ${resource}`);
}

async function admin(method: string, path: string, signal: AbortSignal, body?: unknown): Promise<Response> {
  return fetch(`${process.env.ADMIN_API}${path}`, {
    method,
    signal,
    headers: { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}

export async function provisionTenant(slug: string, plan: string): Promise<"created" | "exists"> {
  const grant = await acquire(`lock:tenant:${slug}`);
  try {
    const signal = AbortSignal.timeout(Math.floor(grant.validityMs - SAFETY_MS));
    const current = await admin("GET", `/tenants/${slug}`, signal);
    if (current.ok) return "exists";
    if (current.status !== 404) throw new Error(`lookup of ${slug} answered ${current.status}`);

    const created = await admin("PUT", `/databases/tenant_${slug}`, signal, { plan });
    if (!created.ok) throw new Error(`database for ${slug}: ${created.status}`);
    const { dsn } = (await created.json()) as { dsn: string };

    const saved = await admin("PUT", `/tenants/${slug}`, signal, { slug, plan, dsn });
    if (!saved.ok) throw new Error(`saving ${slug}: ${saved.status}`);
    return "created";
  } finally {
    await releaseEverywhere(grant.resource, grant.token);
  }
}
