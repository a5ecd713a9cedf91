import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { CampaignNews, CampaignPlan, GuestCell } from './campaign.js';

/** A row of the matrix. */
export interface MatrixRow {
  readonly id: string;
  readonly library: string;
  readonly version: string;
  readonly belief: string;
  readonly cells: readonly GuestCell[];
  /** Why the library could not be run, or not to the end. */
  readonly error: string | null;
}

export interface MatrixOptions {
  readonly workers?: number;
  readonly signal?: AbortSignal;
  readonly onNews?: (id: string, news: CampaignNews) => void;
}

/** Runs campaigns, each in a fresh worker, so that no guest meets what another has left behind. Keeps their order. */
export async function runMatrix(plans: readonly CampaignPlan[], options: MatrixOptions = {}): Promise<MatrixRow[]> {
  const rows: MatrixRow[] = [];
  const queue = [...plans.entries()];
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (options.signal?.aborted) return;
      const [place, plan] = next;
      rows[place] = await runRow(plan, options);
    }
  };
  const workers = Math.min(options.workers ?? availableParallelism(), plans.length);
  await Promise.all(Array.from({ length: workers }, work));
  return rows.filter((row) => row !== undefined);
}

function runRow(plan: CampaignPlan, { signal, onNews }: MatrixOptions): Promise<MatrixRow> {
  const { id } = plan.guest;
  return new Promise((resolve) => {
    const cells: GuestCell[] = [];
    let about = { library: id, version: '', belief: '' };
    let error: string | null = null;
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData: plan });
    const stop = (): void => void worker.terminate();
    signal?.addEventListener('abort', stop, { once: true });
    worker.on('message', (news: CampaignNews) => {
      if (news.type === 'library') about = { library: news.name, version: news.version, belief: news.belief };
      if (news.type === 'cell') cells.push(news.cell);
      onNews?.(id, news);
    });
    worker.on('error', (it) => {
      error = it instanceof Error ? it.message : String(it);
    });
    worker.on('exit', () => {
      signal?.removeEventListener('abort', stop);
      resolve({ id, ...about, cells, error });
    });
  });
}
