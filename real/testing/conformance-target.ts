import type { Redis } from 'ioredis';
import { type Answer, type Command, type Operation, scriptsOf, type Token } from '../../core/index.js';
import { lockPolicyOf, type Policy, policyWith, REFERENCE } from '../../deviations/index.js';
import { type KeyState, StandaloneNode } from '../../sim/index.js';
import { answerOf, isMissingScript, Request, write } from '../lock/request.js';

/** How a command is sent: as the lock does, with the text of its script, or by the scripts of another policy. */
export type Variant = 'wire' | 'text' | 'no-nx' | 'own-or-missing' | 'heals' | 'extend-any' | 'plain-del';

/** The policy of each variant. */
export const VARIANTS: Readonly<Record<Variant, Policy>> = {
  wire: REFERENCE,
  text: REFERENCE,
  'no-nx': policyWith({ deviations: ['sets-any'] }),
  'own-or-missing': policyWith({ deviations: ['extends-missing'] }),
  heals: policyWith({ deviations: ['extension-heals'] }),
  'extend-any': policyWith({ deviations: ['extends-any'] }),
  'plain-del': policyWith({ deviations: ['deletes-any'] }),
};

/** One thing to do to a node. */
export interface Act {
  readonly operation: Operation;
  readonly variant: Variant;
  readonly token: number;
  readonly keys: readonly string[];
  readonly ttlMs: number;
}

/** A node of some kind. */
export interface Target {
  perform(act: Act): Promise<Answer>;
  /** Takes `ms` from what is left of each key: time passes, without anybody waiting for it. */
  age(keys: readonly string[], ms: number): Promise<void>;
  /** Lets some milliseconds pass. */
  wait(ms: number): Promise<void>;
  state(keys: readonly string[]): Promise<(KeyState | null)[]>;
}

/** The command that an act sends. */
export function commandOf({ operation, token, ttlMs }: Act): Command {
  // Numbers are tokens that both a simulated node and the wire take.
  return { operation, attempt: 0, round: 0, token: token as Token, ttlMs, counter: 0 };
}

/** The simulated node, on a clock that only the acts move. */
export class SimTarget implements Target {
  readonly #node = new StandaloneNode();
  #nowMs = 0;

  async perform(act: Act): Promise<Answer> {
    return this.#node.execute(VARIANTS[act.variant], commandOf(act), act.keys, this.#nowMs);
  }

  async age(_keys: readonly string[], ms: number): Promise<void> {
    this.#nowMs += ms;
  }

  wait(ms: number): Promise<void> {
    return this.age([], ms);
  }

  async state(keys: readonly string[]): Promise<(KeyState | null)[]> {
    return this.#node.state(keys, this.#nowMs);
  }
}

const AGE = `
for _, key in ipairs(KEYS) do
  local left = redis.call('pttl', key)
  if left >= 0 then redis.call('pexpire', key, left - tonumber(ARGV[1])) end
end
return 1`;

/** A server, or what pretends to be one, under keys of its own. */
export class RedisTarget implements Target {
  readonly #client: Redis;
  readonly #prefix: string;

  constructor(client: Redis, prefix: string) {
    this.#client = client;
    this.#prefix = prefix;
  }

  async perform(act: Act): Promise<Answer> {
    try {
      return answerOf(await this.#send(act));
    } catch {
      return 'error';
    }
  }

  async #send(act: Act): Promise<unknown> {
    const keys = this.#named(act.keys);
    if (act.variant === 'wire') {
      const request = new Request(commandOf(act), keys);
      try {
        return await write(this.#client, request.words);
      } catch (error) {
        if (!isMissingScript(error)) throw error;
        return write(this.#client, request.inFull);
      }
    }
    const lua = scriptsOf(lockPolicyOf(VARIANTS[act.variant]).rules.scripts)[act.operation];
    return this.#client.eval(lua, keys.length, ...keys, String(act.token), act.ttlMs);
  }

  async age(keys: readonly string[], ms: number): Promise<void> {
    await this.#client.eval(AGE, keys.length, ...this.#named(keys), ms);
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  state(keys: readonly string[]): Promise<(KeyState | null)[]> {
    return Promise.all(
      this.#named(keys).map(async (key) => {
        const [token, ttlMs] = await Promise.all([this.#client.get(key), this.#client.pttl(key)]);
        return token === null ? null : { token, ttlMs };
      }),
    );
  }

  #named(keys: readonly string[]): string[] {
    return keys.map((key) => `${this.#prefix}:${key}`);
  }
}
