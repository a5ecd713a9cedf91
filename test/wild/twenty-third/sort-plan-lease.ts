import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

interface SortPlan {
  depotId: string;
  revision: number;
  chutes: Record<string, string>;
}

interface PlanRepository {
  current(depotId: string, opts: { signal: AbortSignal }): Promise<SortPlan>;
  store(plan: SortPlan, opts: { signal: AbortSignal }): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

interface Granted {
  token: string;
  validMs: number;
}

const TTL_MS = 20_000;
const NODE_TIMEOUT_MS = 250;
const DRIFT_MS = TTL_MS * 0.01 + 2;
const SPARE_MS = 4_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

/** Five Redis masters in three halls, without replication between them. */
export function connectNodes(urls: string[]): Redis[] {
  return urls.map(
    (url) =>
      new Redis(url, {
        commandTimeout: NODE_TIMEOUT_MS,
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
      }),
  );
}

export class SortPlanEditor {
  private readonly nodes: Redis[];
  private readonly plans: PlanRepository;
  private readonly log: Logger;

  constructor(nodes: Redis[], plans: PlanRepository, log: Logger) {
    this.nodes = nodes;
    this.plans = plans;
    this.log = log;
    for (const node of nodes) node.on('error', (err) => log.warn('lock node', { err }));
  }

  async moveRoute(depotId: string, route: string, chute: string): Promise<number> {
    const key = `sort-plan:${depotId}`;
    const granted = await this.acquire(key);
    try {
      const signal = AbortSignal.timeout(granted.validMs);
      const plan = await this.plans.current(depotId, { signal });
      const next = { ...plan, revision: plan.revision + 1, chutes: { ...plan.chutes, [route]: chute } };
      signal.throwIfAborted();
      await this.plans.store(next, { signal });
      this.log.info('sort plan changed', { depotId, revision: next.revision });
      return next.revision;
    } finally {
      await this.releaseAll(key, granted.token);
    }
  }

  private async acquire(key: string): Promise<Granted> {
    for (let attempt = 1; attempt <= 5; attempt++) {
      const token = randomUUID();
      const startedAt = performance.now();
      const replies = await Promise.allSettled(
        this.nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')),
      );

      // A node that is down for maintenance has no say; the others decide by majority.
      const answers = replies.flatMap((r) => (r.status === 'fulfilled' ? [r.value] : []));
      const votes = answers.filter((value) => value === 'OK').length;
      const majority = Math.floor(answers.length / 2) + 1;

      const validMs = Math.floor(TTL_MS - (performance.now() - startedAt) - DRIFT_MS - SPARE_MS);
      if (votes >= majority && validMs > 0) return { token, validMs };

      await this.releaseAll(key, token);
      this.log.info('sort plan lease not granted', { key, attempt, votes, asked: this.nodes.length });
      await sleep(150 + Math.random() * 350);
    }
    throw new Error(`${key} is being edited elsewhere`);
  }

  /** Goes to every node, also to those whose answer never came in. */
  private async releaseAll(key: string, token: string): Promise<void> {
    const results = await Promise.allSettled(this.nodes.map((node) => node.eval(RELEASE, 1, key, token)));
    const failed = results.filter((r) => r.status === 'rejected').length;
    if (failed > 0) this.log.warn('lease left to expire on some nodes', { key, failed });
  }
}
