import Redis from "ioredis";
import Redlock, { ExecutionError, ResourceLockedError } from "redlock5";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", {
  maxRetriesPerRequest: 1,
  commandTimeout: 1_500,
});
redis.on("error", (err) => console.error("adoption redis", err.message));

const redlock = new Redlock([redis], {
  retryCount: 6,
  retryDelay: 250,
  retryJitter: 100,
  automaticExtensionThreshold: 4_000,
});

redlock.on("error", (err) => {
  // A taken lock is the normal case here, not worth a line in the log.
  if (err instanceof ResourceLockedError) return;
  console.error("redlock", err);
});

export interface Pet {
  id: string;
  status: "available" | "adopted";
  adopterId?: string;
  version: number;
}

export interface ShelterStore {
  find(petId: string, opts: { signal: AbortSignal }): Promise<Pet | null>;
  /** Compare-and-set on the version column; resolves to false if the row has moved on. */
  update(pet: Pet, opts: { expectedVersion: number; signal: AbortSignal }): Promise<boolean>;
}

export interface Screening {
  approve(adopterId: string, petId: string, opts: { signal: AbortSignal }): Promise<boolean>;
}

export type AdoptionResult = "adopted" | "gone" | "not-approved" | "busy";

/** Screening can take from seconds to a minute, the lock is extended while it runs. */
export async function adopt(
  shelter: ShelterStore,
  screening: Screening,
  petId: string,
  adopterId: string,
): Promise<AdoptionResult> {
  let entered = false;
  let result: AdoptionResult | undefined;

  try {
    await redlock.using([`adoption:pet:${petId}`], 12_000, async (signal) => {
      entered = true;
      const pet = await shelter.find(petId, { signal });
      if (!pet || pet.status !== "available") {
        result = pet?.adopterId === adopterId ? "adopted" : "gone";
        return;
      }

      const approved = await screening.approve(adopterId, petId, { signal });
      if (signal.aborted) throw signal.error ?? new Error(`lock on ${petId} lost`);
      if (!approved) {
        result = "not-approved";
        return;
      }

      const saved = await shelter.update(
        { ...pet, status: "adopted", adopterId, version: pet.version + 1 },
        { expectedVersion: pet.version, signal },
      );
      result = saved ? "adopted" : "busy";
    });
  } catch (err) {
    if (result) {
      // The decision stands, only the release did not get through; the lock runs out.
      console.warn(`lock of pet ${petId} not released`, err);
      return result;
    }
    if (!entered && err instanceof ExecutionError) return "busy";
    throw err;
  }

  return result ?? "busy";
}
