import type { Redlock } from 'lockstep-redlock';
import type { Accounts } from './accounts.js';

/** Takes money from accounts: reads a balance, works out the new one, writes it back. */
export class Service {
  readonly #redlock: Redlock;
  readonly #accounts: Accounts;

  /** `redlock` has `fencing: true`. */
  constructor(redlock: Redlock, accounts: Accounts) {
    this.#redlock = redlock;
    this.#accounts = accounts;
  }

  /**
   * @param work - What takes time between the reading and the writing.
   * @throws LockError if the account is busy; StaleWriter if the lock was lost before the balance was written.
   */
  async charge(account: string, amount: number, work: () => Promise<void> = async () => {}): Promise<number> {
    // Nobody else starts meanwhile, as long as all goes well …
    await using lock = await this.#redlock.acquire(`account:${account}`, 2_000);
    const balance = (await this.#accounts.balance(account)) - amount;
    await work();
    // … and where it does not, the row refuses what comes too late.
    if (lock.fencingToken === null) throw new Error('the lock has no fencing tokens');
    await this.#accounts.write(account, balance, lock.fencingToken);
    return balance;
  }
}
