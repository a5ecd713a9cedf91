import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type Redis from "ioredis";

// Hash with one field: owner -> depth of nesting.
const ENTER = `
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
local depth = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return depth`;

const LEAVE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end
local depth = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if depth <= 0 then redis.call('DEL', KEYS[1]) end
return depth`;

const OWNER = `${hostname()}:${process.pid}:${Date.now().toString(36)}`;
const TTL_MS = 30_000;
const MARGIN_MS = 250;

export class FolderBusy extends Error {}

export interface Folders {
  children(id: string, signal: AbortSignal): Promise<string[]>;
  setParent(id: string, parent: string, signal: AbortSignal): Promise<void>;
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** Changes to a workspace's folder tree. Methods lock the workspace and may call one another. */
export class FolderTree {
  // the client is made with autoResendUnfulfilledCommands: false, as depths must not be counted twice
  constructor(private readonly redis: Redis, private readonly folders: Folders) {}

  async move(workspace: string, id: string, parent: string): Promise<void> {
    await this.locked(workspace, async (signal) => {
      signal.throwIfAborted();
      await this.folders.setParent(id, parent, signal);
    });
  }

  async removeDeep(workspace: string, id: string): Promise<void> {
    await this.locked(workspace, async (signal) => {
      for (const child of await this.folders.children(id, signal)) {
        signal.throwIfAborted();
        await this.removeDeep(workspace, child);
      }
      signal.throwIfAborted();
      await this.folders.remove(id, signal);
    });
  }

  private async locked<T>(workspace: string, work: (signal: AbortSignal) => Promise<T>, waitMs = 10_000): Promise<T> {
    const key = `workspace:${workspace}:tree`;
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const sentAt = performance.now();
      const depth = Number(await this.redis.eval(ENTER, 1, key, OWNER, TTL_MS));
      if (depth > 0) {
        try {
          const left = Math.floor(sentAt + TTL_MS - MARGIN_MS - performance.now());
          return await work(AbortSignal.timeout(Math.max(0, left)));
        } finally {
          await this.redis.eval(LEAVE, 1, key, OWNER).catch((err) => console.warn(`${key}: ${err.message}`));
        }
      }
      if (performance.now() >= giveUpAt) throw new FolderBusy(workspace);
      await sleep(50 + Math.random() * 100);
    }
  }
}
