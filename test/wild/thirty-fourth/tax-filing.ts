import { randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";

// No automatic retries: a SET NX sent twice would be refused by its own first copy.
const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  retry: false,
});

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

export class FilingLock {
  static readonly TTL_MS = 90_000;
  static readonly WORK_MS = 60_000;

  /** Runs fn while nobody else files the same return; undefined when somebody does. */
  static async tryRun<T>(returnId: string, fn: (signal: AbortSignal) => Promise<T>): Promise<{ value: T } | undefined> {
    const key = `tax-return:${returnId}:filing`;
    const token = randomUUID();
    const signal = AbortSignal.timeout(FilingLock.WORK_MS);

    try {
      const reply = await redis.set(key, token, { nx: true, px: FilingLock.TTL_MS });
      if (reply !== "OK") return undefined;
      return { value: await fn(signal) };
    } finally {
      // Also after a SET whose answer got lost. A foreign token is left alone.
      await redis
        .eval<[string], number>(RELEASE, [key], [token])
        .catch((err) => console.warn("filing lock not released, it will lapse", key, err));
    }
  }
}

export interface TaxReturn {
  id: string;
  taxpayerId: string;
  year: number;
  status: "draft" | "ready" | "filing" | "filed";
  receipt?: string;
  form: unknown;
  version: number;
}

export interface TaxReturnRepo {
  load(id: string, signal: AbortSignal): Promise<TaxReturn>;
  /** ready -> filing, if still at this version, else rejects. A return in filing can no longer be edited. */
  freeze(id: string, version: number, signal: AbortSignal): Promise<void>;
  /** filing -> filed. */
  markFiled(id: string, receipt: string, signal: AbortSignal): Promise<void>;
}

async function submit(taxReturn: TaxReturn, signal: AbortSignal): Promise<string> {
  const res = await fetch(`${process.env.TAX_GATEWAY_URL}/v2/returns/${taxReturn.year}`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      // The gateway answers a repeated key with the receipt of the first submission.
      "idempotency-key": taxReturn.id,
    },
    body: JSON.stringify({ taxpayer: taxReturn.taxpayerId, form: taxReturn.form }),
    signal,
  });
  if (!res.ok) throw new Error(`tax gateway answered ${res.status}`);
  const body = (await res.json()) as { receipt: string };
  return body.receipt;
}

export type FileResult = { status: "filed"; receipt: string } | { status: "in-progress" } | { status: "not-ready" };

export async function fileReturn(repo: TaxReturnRepo, returnId: string): Promise<FileResult> {
  const outcome = await FilingLock.tryRun<FileResult>(returnId, async (signal) => {
    const taxReturn = await repo.load(returnId, signal);
    if (taxReturn.status === "filed") return { status: "filed", receipt: taxReturn.receipt! };
    if (taxReturn.status === "draft") return { status: "not-ready" };

    // One found in filing was frozen by an attempt that did not get through; it is sent again as it is.
    if (taxReturn.status === "ready") await repo.freeze(taxReturn.id, taxReturn.version, signal);
    const receipt = await submit(taxReturn, signal);
    await repo.markFiled(taxReturn.id, receipt, signal);
    return { status: "filed", receipt };
  });

  return outcome ? outcome.value : { status: "in-progress" };
}
